//! One request to an object store, as the stores of this crate record and match it.
//!
//! [`RequestCountingStore`](crate::RequestCountingStore) writes requests down,
//! [`FaultyStore`](crate::FaultyStore) decides by them which ones to disturb.

use std::fmt;
use std::ops::Range;

use object_store::path::Path;
use object_store::{GetOptions, PutMode};

/// What a request asks of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequestKind {
    /// A flat listing of everything below a prefix. All its pages are one request.
    List,
    /// A listing of one level, which returns common prefixes instead of descending.
    ListWithDelimiter,
    /// The bytes of an object, whole or in ranges.
    Get,
    /// The metadata of an object.
    Head,
    /// An object written, at once or as the start of an upload in parts.
    Put,
    /// An object removed. A bulk removal is one request for each object.
    Delete,
    /// An object copied.
    Copy,
    /// An object moved.
    Rename,
}

impl RequestKind {
    /// Whether the request is a listing of either kind.
    pub fn is_list(self) -> bool {
        matches!(self, Self::List | Self::ListWithDelimiter)
    }
}

impl fmt::Display for RequestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::List | Self::ListWithDelimiter => "LIST",
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Copy => "COPY",
            Self::Rename => "RENAME",
        })
    }
}

/// A request as it reached the store.
///
/// Its `Display` is one line:
///
/// ```text
/// LIST /t/ (delimiter)
/// LIST /t/year=2024/
/// HEAD /t/year=2024/a.parquet
/// GET /t/year=2024/a.parquet (bytes=0-3)
/// COPY /t/a.parquet (to /t/b.parquet)
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Request {
    /// What was asked.
    pub kind: RequestKind,
    /// The object or, for a listing, the prefix, with its escapes kept.
    pub path: Path,
    /// What else matters about the request, such as the range of a GET.
    pub detail: Option<String>,
}

/// One constructor for each method of `ObjectStore`.
impl Request {
    pub(crate) fn list(prefix: Option<&Path>) -> Self {
        Self::new(RequestKind::List, &prefix.cloned().unwrap_or_default())
    }

    pub(crate) fn list_with_offset(prefix: Option<&Path>, offset: &Path) -> Self {
        Self::list(prefix).with_detail(format!("after /{offset}"))
    }

    pub(crate) fn list_with_delimiter(prefix: Option<&Path>) -> Self {
        let prefix = prefix.cloned().unwrap_or_default();
        Self::new(RequestKind::ListWithDelimiter, &prefix).with_detail("delimiter")
    }

    pub(crate) fn get(location: &Path, options: &GetOptions) -> Self {
        if options.head {
            return Self::new(RequestKind::Head, location);
        }
        let get = Self::new(RequestKind::Get, location);
        match &options.range {
            Some(range) => get.with_detail(range.to_string()),
            None => get,
        }
    }

    pub(crate) fn get_ranges(location: &Path, ranges: &[Range<u64>]) -> Self {
        let ranges: Vec<_> = ranges
            .iter()
            .map(|range| format!("{}-{}", range.start, range.end.saturating_sub(1)))
            .collect();
        Self::new(RequestKind::Get, location).with_detail(format!("bytes={}", ranges.join(",")))
    }

    pub(crate) fn put(location: &Path, mode: &PutMode) -> Self {
        let put = Self::new(RequestKind::Put, location);
        match mode {
            PutMode::Overwrite => put,
            PutMode::Create => put.with_detail("create"),
            PutMode::Update(_) => put.with_detail("update"),
        }
    }

    pub(crate) fn put_multipart(location: &Path) -> Self {
        Self::new(RequestKind::Put, location).with_detail("multipart")
    }

    /// A step of an upload that has begun: a part, its end, or its cancellation.
    pub(crate) fn upload(location: &Path, step: impl Into<String>) -> Self {
        Self::new(RequestKind::Put, location).with_detail(step)
    }

    pub(crate) fn delete(location: &Path) -> Self {
        Self::new(RequestKind::Delete, location)
    }

    pub(crate) fn copy(from: &Path, to: &Path) -> Self {
        Self::new(RequestKind::Copy, from).with_detail(format!("to /{to}"))
    }

    pub(crate) fn rename(from: &Path, to: &Path) -> Self {
        Self::new(RequestKind::Rename, from).with_detail(format!("to /{to}"))
    }

    fn new(kind: RequestKind, path: &Path) -> Self {
        Self {
            kind,
            path: path.clone(),
            detail: None,
        }
    }

    fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} /{}", self.kind, self.path)?;
        if self.kind.is_list() && !self.path.is_root() {
            f.write_str("/")?;
        }
        match &self.detail {
            Some(detail) => write!(f, " ({detail})"),
            None => Ok(()),
        }
    }
}
