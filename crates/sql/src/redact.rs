//! Errors without the secrets of the statement that has failed.

use std::fmt;

use datafusion::common::DataFusionError;
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer, Whitespace};
use datafusion_partitioned_connector::{HIDDEN, hide_credentials, hide_in_error, is_sensitive_key};

/// The secrets that a text holds: the literals behind keys that tell so.
#[derive(Clone, Default)]
pub(crate) struct Secrets {
    texts: Vec<String>,
}

/// Shows none.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Secrets").field(&self.texts.len()).finish()
    }
}

impl Secrets {
    /// Finds the secrets of statements: what follows a key that tells so in `OPTIONS (..)` and `WITH (..)`, also in
    /// hints, and the users of URLs.
    pub(crate) fn of(sql: &str, dialect: &dyn Dialect) -> Self {
        let mut texts = vec![];
        collect(sql, dialect, &mut texts);
        texts.retain(|text| !text.is_empty());
        // A secret that is part of another one must not cut it in pieces.
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        texts.dedup();
        Self { texts }
    }

    /// The error, or one that says the same without secrets.
    pub(crate) fn hide(&self, error: DataFusionError) -> DataFusionError {
        hide_in_error(error, |text| {
            let mut shown = hide_credentials(text).into_owned();
            for secret in &self.texts {
                shown = shown.replace(secret, HIDDEN);
            }
            shown
        })
    }
}

fn collect(sql: &str, dialect: &dyn Dialect, secrets: &mut Vec<String>) {
    let Ok(tokens) = Tokenizer::new(dialect, sql).tokenize() else {
        // Of what is no SQL, nothing is shown that follows such a key.
        secrets.extend(words_after_sensitive_words(sql));
        return;
    };
    // How deep in the parentheses of options a token is.
    let mut depth = 0_usize;
    let mut opens = false;
    let mut is_secret = false;
    for token in &tokens {
        let text = match token {
            Token::Whitespace(Whitespace::MultiLineComment(text)) => {
                if let Some(hint) = text.trim_start().strip_prefix('+') {
                    collect(hint, dialect, secrets);
                }
                continue;
            }
            Token::Whitespace(_) => continue,
            Token::LParen => {
                depth += usize::from(opens || depth > 0);
                opens = false;
                is_secret = false;
                continue;
            }
            Token::RParen => {
                depth = depth.saturating_sub(1);
                is_secret = false;
                continue;
            }
            Token::Comma | Token::SemiColon => {
                // `('password', 'x')` is a usual mistake.
                is_secret &= depth > 0 && *token == Token::Comma;
                continue;
            }
            Token::Period | Token::Eq => continue,
            Token::Word(word) => word.value.clone(),
            Token::SingleQuotedString(text)
            | Token::DoubleQuotedString(text)
            | Token::EscapedStringLiteral(text)
            | Token::NationalStringLiteral(text)
            | Token::UnicodeStringLiteral(text)
            | Token::TripleSingleQuotedString(text)
            | Token::SingleQuotedRawStringLiteral(text)
            | Token::SingleQuotedByteStringLiteral(text)
            | Token::Number(text, _) => text.clone(),
            Token::DollarQuotedString(text) => text.value.clone(),
            other => other.to_string(),
        };
        secrets.extend(user_of_url(&text));
        opens = matches!(token, Token::Word(word) if matches!(word.keyword, Keyword::OPTIONS | Keyword::WITH));
        if depth == 0 {
            continue;
        }
        // A path that holds such a word by chance is none.
        let is_key = is_sensitive_key(&text) && !text.contains('/');
        if is_secret && !is_key {
            secrets.push(text);
            is_secret = false;
        } else {
            is_secret = is_key;
        }
    }
}

/// What stands in front of the host in a URL. An error may show it without what makes it a URL.
fn user_of_url(text: &str) -> Option<String> {
    let shown = hide_credentials(text);
    let (start, _) = shown.split_once(HIDDEN)?;
    let user = text.strip_prefix(start)?.rsplit_once('@')?.0;
    start.ends_with("://").then(|| user.to_owned())
}

fn words_after_sensitive_words(sql: &str) -> Vec<String> {
    let words = sql.split(|c: char| c.is_whitespace() || "'\"=(),;".contains(c));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let pairs = words.windows(2);
    let secrets = pairs.filter(|pair| is_sensitive_key(pair[0]) && !is_sensitive_key(pair[1]));
    secrets.map(|pair| pair[1].to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    use super::*;

    #[test]
    fn literals_behind_secret_keys_are_hidden() {
        for sql in [
            "CREATE TABLE t WITH ('password' = 'S-BBBB')",
            "CREATE EXTERNAL TABLE t OPTIONS ('aws.secret_access_key' 'S-BBBB')",
            "CREATE EXTERNAL TABLE t OPTIONS (aws.secret_access_key 'S-BBBB')",
            "CREATE EXTERNAL TABLE t OPTIONS ('a' 'x', password \"S-BBBB\")",
            "CREATE EXTERNAL TABLE t OPTIONS ('password', 'S-BBBB')",
            "CREATE EXTERNAL TABLE t OPTIONS ('password' E'S-BBBB')",
            "CREATE EXTERNAL TABLE t OPTIONS ('password' $$S-BBBB$$)",
            "CREATE EXTERNAL TABLE t OPTIONS ('token' 'S-BBBB",
            "SELECT * FROM t /*+ OPTIONS('password' 'S-BBBB') */",
            "CREATE EXTERNAL TABLE t LOCATION 's3://S-BBBB@b/x'",
        ] {
            let error = DataFusionError::Plan("cannot use S-BBBB at 'http://a:b@c/'".to_owned());
            let shown = secrets(sql).hide(error);
            let shown = format!("{shown} {shown:?}");
            assert!(
                !shown.contains("S-BBBB") && !shown.contains("a:b"),
                "{sql}: {shown}"
            );
        }
    }

    #[test]
    fn other_errors_stay_as_they_are() {
        for sql in [
            "SELECT token, name FROM t WHERE token = name",
            "SELECT 1",
            "CREATE TABLE t WITH ('path' = '/tmp/tokens/t', 'name' = 'csv')",
        ] {
            let error = DataFusionError::Plan("no such column: name".to_owned());
            let error = secrets(sql).hide(error);
            assert!(matches!(error, DataFusionError::Plan(_)));
        }
    }

    fn secrets(sql: &str) -> Secrets {
        Secrets::of(sql, &GenericDialect {})
    }
}
