//! What must not be shown: values of secret options, and credentials in URLs.

use std::borrow::Cow;

use datafusion::common::{DataFusionError, Result};

/// What stands for a secret in errors and statements.
pub const HIDDEN: &str = "******";

/// Options whose keys contain one of these hold secrets, whether their connector says so or not.
/// Flink's list, and the keys of object stores.
const SENSITIVE_PARTS: [&str; 23] = [
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "private-key",
    "private_key",
    "signature",
    "account-key",
    "secret",
    "token",
    "credential",
    "account.key",
    "account_key",
    "access_key",
    "access-key",
    "apikey",
    "api-key",
    "api_key",
    "auth-params",
    "service-key",
    "basic-auth",
    "jaas.config",
    "http-headers",
];

/// Whether the value of an option with this key is not to be shown, as far as its name tells.
pub fn is_sensitive_key(key: &str) -> bool {
    let key = key.to_lowercase();
    let is_key = key == "key" || key.ends_with("-key") || key.ends_with(".key");
    is_key || names_secret(&key)
}

/// Whether a text has a word such as `password` in it.
pub fn names_secret(text: &str) -> bool {
    let text = text.to_lowercase();
    SENSITIVE_PARTS.iter().any(|part| text.contains(part))
}

/// The error, or one that says the same with what `hide` makes of its text. An error that shows no secret, neither as
/// a text nor to a programmer (`Debug`), keeps its type.
pub fn hide_in_error(error: DataFusionError, hide: impl Fn(&str) -> String) -> DataFusionError {
    let text = error.strip_backtrace();
    let (shown, debug) = (hide(&text), format!("{error:?}"));
    match shown == text && hide(&debug) == debug {
        true => error,
        false => DataFusionError::External(shown.into()),
    }
}

/// The text, in which the user information and the query of each URL are hidden: either may hold
/// credentials.
///
/// ```
/// use datafusion_partitioned_connector::hide_credentials;
///
/// let text = hide_credentials("cannot read 's3://me:pw@lake/t?sig=x' twice");
/// assert_eq!(text, "cannot read 's3://******@lake/t?******' twice");
/// ```
pub fn hide_credentials(text: &str) -> Cow<'_, str> {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(scheme_end) = rest.find("://") {
        let (before, url) = rest.split_at(scheme_end + "://".len());
        // Lists of URLs have no other character in between.
        let next = url.find("://").unwrap_or(url.len());
        let end = end_of_url(&url[..next]);
        let (url, behind) = url.split_at(end);
        shown.push_str(before);
        let (path, has_query) = match url.split_once('?') {
            Some((path, query)) => (path, !query.is_empty()),
            None => (url, false),
        };
        match user_info_end(path) {
            Some(at) => {
                shown.push_str(HIDDEN);
                shown.push_str(&path[at..]);
            }
            None => shown.push_str(path),
        }
        if has_query {
            shown.push('?');
            shown.push_str(HIDDEN);
        }
        rest = behind;
    }
    if shown.is_empty() {
        return Cow::Borrowed(text);
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// Where a URL ends in a text: at what is not in one, unless that is part of a password.
fn end_of_url(text: &str) -> usize {
    let end_from = |start: usize| {
        let end = text[start..].find(|c: char| c.is_whitespace() || "'\"<>`".contains(c));
        end.map_or(text.len(), |end| start + end)
    };
    let end = end_from(0);
    match text[end..].find('@') {
        Some(at) if !text[..end].contains('@') && has_password(&text[..end]) => end_from(end + at),
        _ => end,
    }
}

/// Whether what follows the first colon of a URL is no port.
fn has_password(url: &str) -> bool {
    let authority = url.split(['/', '?']).next().unwrap_or(url);
    let port = authority.split_once(':').map(|(_, port)| port);
    port.is_some_and(|port| !port.chars().all(|c| c.is_ascii_digit()))
}

/// Where the `@` behind the user and the password is.
fn user_info_end(url: &str) -> Option<usize> {
    let authority = &url[..url.find('/').unwrap_or(url.len())];
    if let Some(at) = authority.rfind('@') {
        return Some(at);
    }
    // A slash that should have been escaped.
    has_password(url).then(|| url.rfind('@')).flatten()
}

/// The variable that `${env:NAME}` names; `None` for another text.
pub(crate) fn environment_variable(text: &str) -> Option<&str> {
    let name = text.strip_prefix("${env:")?.strip_suffix('}')?;
    (!name.is_empty() && !name.contains(['$', '{', '}'])).then_some(name)
}

/// A secret as it is used: the value of the environment variable to which the text refers, or else the
/// text itself.
///
/// # Errors
/// What was expected, when there is no such variable.
pub(crate) fn resolve_secret(text: &str) -> Result<Cow<'_, str>, String> {
    let Some(name) = environment_variable(text) else {
        return Ok(Cow::Borrowed(text));
    };
    match std::env::var(name) {
        Ok(value) => Ok(Cow::Owned(value)),
        Err(_) => Err(format!("the environment variable '{name}' to be set")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tell_what_is_secret() {
        for key in ["password", "aws.secret_access_key", "Api-Key", "x.TOKEN"] {
            assert!(is_sensitive_key(key), "{key}");
        }
        assert!(!is_sensitive_key("partition.max") && !is_sensitive_key("aws.region"));
    }

    #[test]
    fn urls_are_shown_without_credentials() {
        for (text, shown) in [
            ("no URL at all", "no URL at all"),
            ("s3://lake/a@b/", "s3://lake/a@b/"),
            (
                "https://u:p@w@h/x, and http://t@h",
                "https://******@h/x, and http://******@h",
            ),
            (
                "\"http://h/x?sig=1&b=2\" failed",
                "\"http://h/x?******\" failed",
            ),
            ("file:///a?", "file:///a"),
            (
                "http://a:92,http://u:pw@b:92",
                "http://a:92,http://******@b:92",
            ),
            ("x://u:p/w@h/x", "x://******@h/x"),
            ("'x://u:p''w@h/x' failed", "'x://******@h/x' failed"),
            ("at x://u:p w@h/x, at a@b", "at x://******@h/x, at a@b"),
            ("x://h:80 of a@b", "x://h:80 of a@b"),
        ] {
            assert_eq!(hide_credentials(text), shown);
        }
    }

    #[test]
    fn secrets_may_refer_to_the_environment() {
        assert_eq!(environment_variable("${env:HOME}"), Some("HOME"));
        for text in [
            "HOME",
            "${HOME}",
            "${env:}",
            "x${env:HOME}",
            "${env:${env:A}}",
        ] {
            assert_eq!(environment_variable(text), None, "{text}");
            assert_eq!(resolve_secret(text).as_deref(), Ok(text));
        }
        let error = resolve_secret("${env:DFP_NO_SUCH_VARIABLE}").unwrap_err();
        assert_eq!(
            error,
            "the environment variable 'DFP_NO_SUCH_VARIABLE' to be set"
        );
        assert_eq!(
            resolve_secret("${env:CARGO_PKG_NAME}").unwrap(),
            env!("CARGO_PKG_NAME")
        );
    }
}
