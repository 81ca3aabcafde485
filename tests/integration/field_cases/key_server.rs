//! A bucket with exact keys, behind the S3 protocol: keys that end with a slash or have an empty
//! name, and listings in pages. Stores in memory and on disk cannot hold these.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use s3s::dto::{
    CommonPrefix, ETag, GetObjectInput, GetObjectOutput, HeadObjectInput, HeadObjectOutput,
    ListObjectsV2Input, ListObjectsV2Output, Object, StreamingBlob,
};
use s3s::{Body, S3, S3Request, S3Response, S3Result, s3_error};

use super::Case;
use datafusion_partitioned_s3_server::S3Server;

/// Objects by their keys, and how many entries a page of a listing has.
pub(super) struct Bucket {
    objects: BTreeMap<String, Vec<u8>>,
    page: usize,
}

impl Bucket {
    /// An empty bucket with pages of 1000 entries, as in S3.
    pub(super) fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            page: 1000,
        }
    }

    pub(super) fn with(mut self, key: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        self.objects.insert(key.into(), content.into());
        self
    }

    pub(super) fn with_page(mut self, page: usize) -> Self {
        self.page = page;
        self
    }

    /// A server with these objects, and a case at `s3://lake/` that has them as its files.
    pub(super) async fn serve(self) -> (S3Server, Case) {
        let server = S3Server::start_with(self).await.unwrap();
        let client = server.client().unwrap();
        let case = Case::in_store("s3://lake/", Arc::new(client));
        (server, case)
    }

    fn object(&self, key: &str) -> S3Result<&[u8]> {
        let object = self.objects.get(key);
        Ok(object.ok_or_else(|| s3_error!(NoSuchKey))?)
    }
}

#[async_trait]
impl S3 for Bucket {
    async fn get_object(
        &self,
        request: S3Request<GetObjectInput>,
    ) -> S3Result<S3Response<GetObjectOutput>> {
        let bytes = self.object(&request.input.key)?;
        let (part, content_range) = match request.input.range {
            None => (bytes, None),
            Some(range) => {
                let range = range.check(bytes.len() as u64)?;
                let content_range =
                    format!("bytes {}-{}/{}", range.start, range.end - 1, bytes.len());
                let part = &bytes[range.start as usize..range.end as usize];
                (part, Some(content_range))
            }
        };
        Ok(S3Response::new(GetObjectOutput {
            body: Some(StreamingBlob::from(Body::from(part.to_vec()))),
            content_length: Some(part.len() as i64),
            content_range,
            last_modified: Some(SystemTime::UNIX_EPOCH.into()),
            e_tag: Some(ETag::Strong("x".to_owned())),
            ..Default::default()
        }))
    }

    async fn head_object(
        &self,
        request: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        let bytes = self.object(&request.input.key)?;
        Ok(S3Response::new(HeadObjectOutput {
            content_length: Some(bytes.len() as i64),
            last_modified: Some(SystemTime::UNIX_EPOCH.into()),
            e_tag: Some(ETag::Strong("x".to_owned())),
            ..Default::default()
        }))
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let input = request.input;
        let prefix = input.prefix.unwrap_or_default();
        let after = input.continuation_token.or(input.start_after);
        let from = match &after {
            Some(after) => Bound::Excluded(after.as_str()),
            None => Bound::Unbounded,
        };
        let keys = self.objects.range::<str, _>((from, Bound::Unbounded));

        let mut contents = vec![];
        let mut prefixes = BTreeSet::new();
        let mut last = None;
        let mut is_truncated = false;
        for (key, content) in keys {
            let Some(rest) = key.strip_prefix(&prefix) else {
                continue;
            };
            let end = input.delimiter.as_deref().and_then(|d| rest.find(d));
            let common = end.map(|end| key[..=prefix.len() + end].to_owned());
            // Keys of a prefix that has been returned, on this page or on one before.
            let is_known = |common: &String| {
                let is_before = after
                    .as_ref()
                    .is_some_and(|after| after.starts_with(common));
                prefixes.contains(common) || is_before
            };
            if common.as_ref().is_some_and(is_known) {
                last = Some(key.clone());
                continue;
            }
            if contents.len() + prefixes.len() == self.page {
                is_truncated = true;
                break;
            }
            last = Some(key.clone());
            match common {
                Some(common) => drop(prefixes.insert(common)),
                None => contents.push(Object {
                    key: Some(key.clone()),
                    size: Some(content.len() as i64),
                    last_modified: Some(SystemTime::UNIX_EPOCH.into()),
                    ..Default::default()
                }),
            }
        }
        let prefixes = prefixes.into_iter().map(|prefix| CommonPrefix {
            prefix: Some(prefix),
        });
        Ok(S3Response::new(ListObjectsV2Output {
            contents: Some(contents),
            common_prefixes: Some(prefixes.collect()),
            is_truncated: Some(is_truncated),
            next_continuation_token: last.filter(|_| is_truncated),
            ..Default::default()
        }))
    }
}
