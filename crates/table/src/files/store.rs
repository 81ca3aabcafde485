//! [`ReadingStore`]: an object store whose files are decompressed when they are read.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

use super::compression::{Compression, decompress};

/// Passes requests on. What a request for a whole object returns is decompressed, and one object may
/// have been requested already.
#[derive(Debug)]
pub(crate) struct ReadingStore {
    inner: Arc<dyn ObjectStore>,
    compression: Compression,
    opened: Mutex<Option<(Path, GetResult)>>,
}

impl ReadingStore {
    pub(crate) fn new(inner: Arc<dyn ObjectStore>, compression: Compression) -> Self {
        Self {
            inner,
            compression,
            opened: Mutex::default(),
        }
    }

    /// Answers the next request for all of `location` with `result`, which is decompressed already.
    pub(crate) fn with_opened(mut self, location: Path, result: GetResult) -> Self {
        self.opened = Mutex::new(Some((location, result)));
        self
    }

    fn take_opened(&self, location: &Path) -> Option<GetResult> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, result) = opened.take_if(|(opened, _)| opened == location)?;
        Some(result)
    }
}

impl fmt::Display for ReadingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadingStore({})", self.inner)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for ReadingStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if options.head || options.range.is_some() {
            return self.inner.get_opts(location, options).await;
        }
        if let Some(result) = self.take_opened(location) {
            return Ok(result);
        }
        let result = self.inner.get_opts(location, options).await?;
        decompress(result, self.compression.of(location))
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, options).await
    }
}
