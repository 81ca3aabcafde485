//! A real S3 protocol server inside of a test or an example, which writes down the requests it gets.
//!
//! In-memory stores show which calls the project makes. Here the S3 client
//! of `object_store` turns those calls into signed HTTP requests, with pages, delimiters and escaped
//! keys, so the log is what a bill would count. The server walks a folder for each LIST: its
//! requests can be counted, its speed means nothing.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use datafusion::common::runtime::{JoinSet, SpawnedTask};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder as HttpServer;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::SimpleAuth;
use s3s::dto::ListObjectsV2Input;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{S3, S3Result, s3_error};
use s3s_fs::FileSystem;
use tempfile::TempDir;
use tokio::net::TcpListener;

const ACCESS_KEY: &str = "integration";
const SECRET_KEY: &str = "integration-secret";

/// The operation that lists a prefix.
const LIST: &str = "ListObjectsV2";

/// The bucket that every server has.
pub const BUCKET: &str = "lake";

/// A server on a free port of the loopback interface, with one empty bucket.
///
/// Dropping it ends all connections and removes the objects.
#[derive(Debug)]
pub struct S3Server {
    endpoint: String,
    log: Arc<Log>,
    _serving: SpawnedTask<()>,
    _directory: Option<TempDir>,
}

impl S3Server {
    /// Starts a server on the runtime of the caller.
    pub async fn start() -> io::Result<Self> {
        let directory = tempfile::tempdir()?;
        std::fs::create_dir(directory.path().join(BUCKET))?;
        let files = FileSystem::new(directory.path())
            .map_err(|error| io::Error::other(format!("{error:?}")))?;
        let mut server = Self::start_with(files).await?;
        server._directory = Some(directory);
        Ok(server)
    }

    /// Starts a server in front of any implementation of the operations.
    pub async fn start_with(storage: impl S3) -> io::Result<Self> {
        let log = Arc::new(Log::default());
        let mut service = S3ServiceBuilder::new(storage);
        service.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        service.set_access(LoggedAccess(Arc::clone(&log)));

        let listener = TcpListener::bind("127.0.0.1:0").await?;
        Ok(Self {
            endpoint: format!("http://{}", listener.local_addr()?),
            log,
            _serving: SpawnedTask::spawn(serve(listener, service.build())),
            _directory: None,
        })
    }

    /// The URL of the server.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// A client of the bucket.
    pub fn client(&self) -> object_store::Result<AmazonS3> {
        self.client_of(BUCKET)
    }

    /// A client of any bucket, whether it exists or not.
    pub fn client_of(&self, bucket: &str) -> object_store::Result<AmazonS3> {
        AmazonS3Builder::new()
            .with_endpoint(self.endpoint())
            .with_allow_http(true)
            .with_virtual_hosted_style_request(false)
            .with_region("us-east-1")
            .with_bucket_name(bucket)
            .with_access_key_id(ACCESS_KEY)
            .with_secret_access_key(SECRET_KEY)
            .build()
    }

    /// The options of a statement of the shell that make it use this server.
    pub fn shell_options(&self) -> String {
        format!(
            "'aws.endpoint' '{}', 'aws.allow_http' 'true', 'aws.region' 'us-east-1', \
             'aws.access_key_id' '{ACCESS_KEY}', 'aws.secret_access_key' '{SECRET_KEY}'",
            self.endpoint
        )
    }

    /// The requests since the last [`clear`](Self::clear), in the order of their arrival.
    pub fn requests(&self) -> Vec<S3Request> {
        self.log.with(|requests| requests.clone())
    }

    /// How many requests of an operation arrived, such as `ListObjectsV2` or `GetObject`.
    pub fn count(&self, operation: &str) -> usize {
        self.log.with(|requests| {
            let matching = requests
                .iter()
                .filter(|request| request.operation == operation);
            matching.count()
        })
    }

    /// The requests whose key or prefix contains `text`, such as the name of a directory.
    pub fn mentioning(&self, text: &str) -> Vec<S3Request> {
        let mut requests = self.requests();
        requests.retain(|request| request.target.contains(text));
        requests
    }

    /// Forgets all requests.
    pub fn clear(&self) {
        self.log.with(Vec::clear);
    }
}

/// One HTTP request, shown as `ListObjectsV2 t/year=2024/ (delimiter)`.
///
/// Each page of a listing is a request. A bulk deletion carries its keys in the body, so its target
/// is empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct S3Request {
    /// The name of the operation in the S3 API.
    pub operation: String,
    /// The key or, for a listing, the prefix, as they are after the decoding of the URI.
    pub target: String,
    /// Whether a listing stops at the next `/`.
    pub delimiter: bool,
}

impl fmt::Display for S3Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = if self.delimiter { " (delimiter)" } else { "" };
        write!(f, "{} {}{suffix}", self.operation, self.target)
    }
}

#[derive(Debug, Default)]
struct Log(Mutex<Vec<S3Request>>);

impl Log {
    fn with<T>(&self, f: impl FnOnce(&mut Vec<S3Request>) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Refuses requests without a signature and writes down the others.
struct LoggedAccess(Arc<Log>);

impl LoggedAccess {
    fn add(&self, operation: &str, target: Option<&str>, delimiter: bool) {
        let request = S3Request {
            operation: operation.to_owned(),
            target: target.unwrap_or_default().to_owned(),
            delimiter,
        };
        self.0.with(|requests| requests.push(request));
    }
}

#[async_trait]
impl S3Access for LoggedAccess {
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        if context.credentials().is_none() {
            return Err(s3_error!(AccessDenied, "a signature is required"));
        }
        let operation = context.s3_op().name();
        // A listing is asked about once more below, when its parameters are known.
        if operation != LIST {
            self.add(operation, context.s3_path().get_object_key(), false);
        }
        Ok(())
    }

    async fn list_objects_v2(
        &self,
        request: &mut s3s::S3Request<ListObjectsV2Input>,
    ) -> S3Result<()> {
        let ListObjectsV2Input {
            prefix, delimiter, ..
        } = &request.input;
        self.add(LIST, prefix.as_deref(), delimiter.is_some());
        Ok(())
    }
}

/// Accepts connections until the task is dropped, and the connections with it.
async fn serve(listener: TcpListener, service: S3Service) {
    let http = HttpServer::new(TokioExecutor::new());
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        let connection = http.serve_connection(TokioIo::new(socket), service.clone());
        let connection = connection.into_owned();
        connections.spawn(async move {
            // A client that goes away is no failure of the server.
            let _ = connection.await;
        });
    }
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;
    use object_store::path::Path;
    use object_store::{ObjectStore, ObjectStoreExt};

    use super::*;

    #[tokio::test]
    async fn requests_are_written_down_with_decoded_keys() -> object_store::Result<()> {
        let server = S3Server::start().await.unwrap();
        let client = server.client()?;
        for p in ["a%2Fb", "c d"] {
            let key = Path::parse(format!("t/p={p}/x"))?;
            client.put(&key, "x".into()).await?;
        }
        assert_eq!(server.count("PutObject"), 2);

        server.clear();
        let listing = client.list_with_delimiter(Some(&Path::from("t"))).await?;
        for directory in &listing.common_prefixes[..1] {
            for object in client.list(Some(directory)).try_collect::<Vec<_>>().await? {
                client.get(&object.location).await?.bytes().await?;
            }
        }
        let lines: Vec<_> = server.requests().iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "ListObjectsV2 t/ (delimiter)",
                "ListObjectsV2 t/p=a%2Fb/",
                "GetObject t/p=a%2Fb/x",
            ]
        );
        assert_eq!(server.mentioning("p=c d"), []);
        Ok(())
    }
}
