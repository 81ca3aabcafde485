//! Buckets of S3 as locations: an object store is opened when a statement first names its bucket, or a table of
//! a catalog file is there.
//!
//! Settings come from the environment (`AWS_*`), and from the options of the statement:
//!
//! | option | variable |
//! |---|---|
//! | `aws.access_key_id` | `AWS_ACCESS_KEY_ID` |
//! | `aws.secret_access_key` | `AWS_SECRET_ACCESS_KEY` |
//! | `aws.session_token` | `AWS_SESSION_TOKEN` |
//! | `aws.region` | `AWS_REGION`, `AWS_DEFAULT_REGION` |
//! | `aws.endpoint` | `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`, `AWS_ENDPOINT` |
//! | `aws.allow_http` | `AWS_ALLOW_HTTP` |
//!
//! Of statements that are DataFusion's the options are taken out before they are planned, so that neither a table nor
//! a plan can show them. They hold for the bucket: for all later statements too, until others are
//! given.

use std::slice;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result, config_datafusion_err, config_err, plan_err};
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::Value;
use datafusion_partitioned::connector::secrecy::{ExposeSecret, SecretString};
use datafusion_partitioned::connector::{
    CONNECTOR, ConnectorOption, ConnectorOptions, OptionDescription, StoreOpener, quoted_list,
};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::{ClientConfigKey, ObjectStore};
use url::Url;

const OPTION_PREFIX: &str = "aws.";

const ACCESS_KEY_ID: Secret = ConnectorOption::new(
    "aws.access_key_id",
    "who asks for the objects of the bucket",
)
.forwardable();
const SECRET_ACCESS_KEY: Secret =
    ConnectorOption::new("aws.secret_access_key", "the secret that goes with the key")
        .forwardable();
const SESSION_TOKEN: Secret =
    ConnectorOption::new("aws.session_token", "the token of temporary keys").forwardable();
const REGION: Text = ConnectorOption::new("aws.region", "where the bucket is").forwardable();
const ENDPOINT: Text = ConnectorOption::new(
    "aws.endpoint",
    "the URL of a server other than Amazon's that speaks its protocol",
)
.forwardable();
const ALLOW_HTTP: Text = ConnectorOption::new(
    "aws.allow_http",
    "whether the endpoint may be one without encryption: true or false",
)
.forwardable();

type Secret = ConnectorOption<Option<SecretString>>;
type Text = ConnectorOption<Option<String>>;

const SECRETS: [(Secret, AmazonS3ConfigKey); 3] = [
    (ACCESS_KEY_ID, AmazonS3ConfigKey::AccessKeyId),
    (SECRET_ACCESS_KEY, AmazonS3ConfigKey::SecretAccessKey),
    (SESSION_TOKEN, AmazonS3ConfigKey::Token),
];

const TEXTS: [(Text, AmazonS3ConfigKey); 3] = [
    (REGION, AmazonS3ConfigKey::Region),
    // Of the two keys for endpoints, the one that wins over the other.
    (ENDPOINT, AmazonS3ConfigKey::S3Endpoint),
    (
        ALLOW_HTTP,
        AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp),
    ),
];

fn option_keys() -> impl Iterator<Item = (&'static str, AmazonS3ConfigKey)> {
    let secrets = SECRETS
        .iter()
        .map(|(option, setting)| (option.key(), *setting));
    secrets.chain(
        TEXTS
            .iter()
            .map(|(option, setting)| (option.key(), *setting)),
    )
}

/// Opens the buckets of tables that connectors make. Their definitions keep the options.
#[derive(Debug)]
pub(crate) struct BucketOpener;

impl StoreOpener for BucketOpener {
    fn options(&self) -> Vec<OptionDescription> {
        let secrets = SECRETS.iter().map(|(option, _)| option.describe());
        secrets
            .chain(TEXTS.iter().map(|(option, _)| option.describe()))
            .collect()
    }

    fn open(
        &self,
        locations: &[String],
        options: &ConnectorOptions,
        runtime: &RuntimeEnv,
    ) -> Result<()> {
        let mut settings: Vec<S3Setting> = vec![];
        for (option, setting) in &SECRETS {
            if let Some(secret) = options.get(option)? {
                settings.push((*setting, secret.expose_secret().to_owned()));
            }
        }
        for (option, setting) in &TEXTS {
            if let Some(text) = options.get(option)? {
                settings.push((*setting, text));
            }
        }
        open_locations(&AmazonS3Builder::from_env(), locations, &settings, runtime)
    }
}

/// Whether one of the options of a statement is the one that names a connector.
pub(crate) fn names_connector(options: &[(String, Value)]) -> bool {
    options.iter().any(|(key, _)| {
        let key = key.to_lowercase();
        key.strip_prefix("format.").unwrap_or(&key) == CONNECTOR.key()
    })
}

type S3Setting = (AmazonS3ConfigKey, String);

/// Opens the buckets that a statement names, and takes its `aws.` options out of it.
pub(crate) fn open_buckets(statement: &mut Statement, runtime: &RuntimeEnv) -> Result<()> {
    open_buckets_with(&AmazonS3Builder::from_env(), statement, runtime)
}

fn open_buckets_with(
    environment: &AmazonS3Builder,
    statement: &mut Statement,
    runtime: &RuntimeEnv,
) -> Result<()> {
    let (locations, options) = match statement {
        Statement::CreateExternalTable(create) => {
            (create.locations.as_slice(), &mut create.options)
        }
        Statement::CopyTo(copy) => (slice::from_ref(&copy.target), &mut copy.options),
        Statement::Explain(explain) => {
            return open_buckets_with(environment, &mut explain.statement, runtime);
        }
        Statement::Statement(_) | Statement::Reset(_) => return Ok(()),
    };
    if names_connector(options) {
        // See `BucketOpener`.
        return Ok(());
    }
    let settings = take_settings(options)?;
    open_locations(environment, locations, &settings, runtime)
}

fn open_locations(
    environment: &AmazonS3Builder,
    locations: &[String],
    settings: &[S3Setting],
    runtime: &RuntimeEnv,
) -> Result<()> {
    let urls = locations.iter().filter(|location| location.contains("://"));
    let urls: Vec<_> = urls.filter_map(|url| Url::parse(url).ok()).collect();
    let is_known = |url: &Url| url.scheme() == "file" || is_bucket(url);
    if let Some(url) = urls.iter().find(|url| !is_known(url)) {
        return plan_err!(
            "a location begins with '{}://', but the shell reads local paths and s3:// only",
            url.scheme()
        );
    }
    let buckets: Vec<_> = urls.into_iter().filter(is_bucket).collect();
    if buckets.is_empty() && !settings.is_empty() {
        return config_err!(
            "options with the prefix '{OPTION_PREFIX}' need a location with the scheme 's3' or \
             's3a'"
        );
    }
    for url in buckets {
        let is_open = runtime.object_store_registry.get_store(&url).is_ok();
        if !is_open || !settings.is_empty() {
            let store = open_bucket(environment, &url, settings)?;
            runtime.register_object_store(&url, Arc::new(store));
        }
    }
    Ok(())
}

/// The error, behind what to do where nothing says who asks for the objects of a bucket.
pub(crate) fn with_advice(error: DataFusionError) -> DataFusionError {
    // The address at which machines of Amazon find their credentials.
    let signs = [
        "169.254.169.254",
        "Missing AccessKeyId",
        "Missing SecretAccessKey",
    ];
    let text = error.to_string();
    match signs.iter().any(|sign| text.contains(sign)) {
        true => error.context(
            "credentials are missing: set the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the options \
             'aws.access_key_id' and 'aws.secret_access_key'",
        ),
        false => error,
    }
}

/// Stores by their URLs, where the buckets that are not known are opened as the environment says.
#[derive(Debug, Default)]
pub(crate) struct BucketRegistry(DefaultObjectStoreRegistry);

impl ObjectStoreRegistry for BucketRegistry {
    fn register_store(
        &self,
        url: &Url,
        store: Arc<dyn ObjectStore>,
    ) -> Option<Arc<dyn ObjectStore>> {
        self.0.register_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.0.deregister_store(url)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        let known = self.0.get_store(url);
        if known.is_ok() || !is_bucket(url) {
            return known;
        }
        let store = open_bucket(&AmazonS3Builder::from_env(), url, &[])?;
        let store: Arc<dyn ObjectStore> = Arc::new(store);
        self.0.register_store(url, Arc::clone(&store));
        Ok(store)
    }
}

fn is_bucket(url: &Url) -> bool {
    matches!(url.scheme(), "s3" | "s3a")
}

fn take_settings(options: &mut Vec<(String, Value)>) -> Result<Vec<S3Setting>> {
    options
        .extract_if(.., |(key, _)| key.to_lowercase().starts_with(OPTION_PREFIX))
        .map(|(key, value)| {
            let mut known = option_keys();
            let known = known.find(|(name, _)| key.eq_ignore_ascii_case(name));
            let Some((_, setting)) = known else {
                return config_err!(
                    "unknown option '{key}'; expected one of: {}",
                    quoted_list(option_keys().map(|(name, _)| name))
                );
            };
            let text = value
                .into_string()
                .ok_or_else(|| config_datafusion_err!("expected a string for option '{key}'"))?;
            Ok((setting, text))
        })
        .collect()
}

fn open_bucket(
    environment: &AmazonS3Builder,
    url: &Url,
    settings: &[S3Setting],
) -> Result<AmazonS3> {
    let bucket = url
        .host_str()
        .ok_or_else(|| config_datafusion_err!("missing bucket in location '{url}'"))?;
    let builder = settings
        .iter()
        .fold(environment.clone(), |builder, (key, value)| {
            builder.with_config(*key, value)
        })
        .with_bucket_name(bucket);

    let get = |key| builder.get_config_value(&key);
    let endpoint = get(AmazonS3ConfigKey::S3Endpoint).or_else(|| get(AmazonS3ConfigKey::Endpoint));
    let is_http = endpoint.is_some_and(|endpoint| endpoint.to_lowercase().starts_with("http:"));
    let allow_http = get(AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp));
    if is_http && allow_http.as_deref() == Some("false") {
        return config_err!(
            "the endpoint of bucket '{bucket}' is not encrypted (http); to use it all the same, \
             set the option 'aws.allow_http' 'true' or the variable AWS_ALLOW_HTTP=true"
        );
    }
    Ok(builder.build()?)
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::*;

    #[test]
    fn buckets_that_no_statement_names_are_opened() {
        let registry = BucketRegistry::default();
        let store = |url: &str| registry.get_store(&Url::parse(url).unwrap());
        let first = store("s3://lake/sales").unwrap();
        assert!(Arc::ptr_eq(&first, &store("s3://lake/other").unwrap()));
        assert!(!Arc::ptr_eq(&first, &store("s3://sea/").unwrap()));
        assert!(store("gs://lake/").is_err());
        assert!(store("file:///").is_ok());
    }

    #[test]
    fn options_are_taken_out_of_the_statement() {
        let runtime = RuntimeEnv::default();
        let mut statement = parse(
            "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 's3://lake/t/' OPTIONS \
             ('AWS.region' 'eu-1', has_header 'true', \
              'aws.access_key_id' 'hidden', 'aws.secret_access_key' 'hidden')",
        );
        open(&mut statement, &runtime).unwrap();
        assert!(has_store(&runtime, "s3://lake/else"));

        let Statement::CreateExternalTable(create) = &statement else {
            panic!("unexpected statement {statement}")
        };
        assert_eq!(create.options.len(), 1);
        assert_eq!(create.options[0].0, "has_header");
        assert!(!format!("{statement:?}").contains("hidden"));
    }

    #[test]
    fn targets_of_copy_are_opened_also_below_explain() {
        let runtime = RuntimeEnv::default();
        let mut copy = parse("COPY t TO 's3a://out/x' OPTIONS ('aws.region' 'eu-1')");
        open(&mut copy, &runtime).unwrap();
        assert!(has_store(&runtime, "s3a://out"));

        let mut explain = parse("EXPLAIN COPY t TO 's3://other/x' STORED AS CSV");
        open(&mut explain, &runtime).unwrap();
        assert!(has_store(&runtime, "s3://other"));
    }

    #[test]
    fn open_buckets_are_kept_until_options_are_given() {
        let runtime = RuntimeEnv::default();
        let store = || {
            let url = Url::parse("s3://lake").unwrap();
            runtime.object_store_registry.get_store(&url).unwrap()
        };
        let create = "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 's3://lake/t/'";
        open(&mut parse(create), &runtime).unwrap();
        let first = store();
        open(&mut parse(create), &runtime).unwrap();
        assert!(Arc::ptr_eq(&first, &store()));
        let create = format!("{create} OPTIONS ('aws.region' 'eu-1')");
        open(&mut parse(&create), &runtime).unwrap();
        assert!(!Arc::ptr_eq(&first, &store()));
    }

    #[test]
    fn mistakes_name_the_option_and_hide_values() {
        let runtime = RuntimeEnv::default();
        for (location, option, message) in [
            (
                "s3://lake/",
                "aws.secret",
                "unknown option 'aws.secret'; expected one of: 'aws.acc",
            ),
            (
                "gs://lake/",
                "has_header",
                "begins with 'gs://', but the shell reads local paths and s3:// only",
            ),
            (
                "/tmp/x",
                "aws.region",
                "prefix 'aws.' need a location with the scheme 's3'",
            ),
        ] {
            let mut statement = parse(&format!(
                "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{location}' \
                 OPTIONS ('{option}' 'hidden')"
            ));
            let error = open(&mut statement, &runtime).unwrap_err().to_string();
            assert!(
                error.contains(message) && !error.contains("hidden"),
                "{error}"
            );
        }
    }

    #[test]
    fn unencrypted_endpoints_have_to_be_allowed() {
        let open_with = |settings: &[(AmazonS3ConfigKey, &str)]| {
            let settings: Vec<_> = settings
                .iter()
                .map(|(key, value)| (*key, value.to_string()))
                .collect();
            let url = Url::parse("s3://lake/t").unwrap();
            open_bucket(&AmazonS3Builder::new(), &url, &settings)
        };
        let endpoint = (AmazonS3ConfigKey::S3Endpoint, "http://127.0.0.1:1");
        let allow = (
            AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp),
            "true",
        );

        let error = open_with(&[endpoint]).unwrap_err().to_string();
        assert!(
            error.contains("endpoint of bucket 'lake' is not encrypted"),
            "{error}"
        );
        assert!(error.contains("AWS_ALLOW_HTTP=true"), "{error}");
        open_with(&[endpoint, allow]).unwrap();
    }

    #[test]
    fn missing_credentials_are_explained() {
        let builder = AmazonS3Builder::new().with_access_key_id("me");
        let error = open_bucket(&builder, &Url::parse("s3://lake").unwrap(), &[]).unwrap_err();
        let error = with_advice(error).to_string();
        assert!(error.contains("credentials are missing"), "{error}");
    }

    fn open(statement: &mut Statement, runtime: &RuntimeEnv) -> Result<()> {
        open_buckets_with(&AmazonS3Builder::new(), statement, runtime)
    }

    fn parse(sql: &str) -> Statement {
        DFParser::parse_sql(sql).unwrap().pop_front().unwrap()
    }

    fn has_store(runtime: &RuntimeEnv, url: &str) -> bool {
        let url = Url::parse(url).unwrap();
        runtime.object_store_registry.get_store(&url).is_ok()
    }
}
