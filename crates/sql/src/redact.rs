//! Errors without the secrets of the statement that has failed.

use datafusion::common::DataFusionError;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use datafusion_partitioned_connector::{HIDDEN, hide_credentials, is_sensitive_key};

/// The secrets that a text holds: the literals behind keys that tell so.
#[derive(Default)]
pub(crate) struct Secrets {
    texts: Vec<String>,
}

impl Secrets {
    /// Finds the secrets of statements.
    pub(crate) fn of(sql: &str) -> Self {
        let Ok(tokens) = Tokenizer::new(&GenericDialect {}, sql).tokenize() else {
            // Of what is no SQL, no literal is shown that follows such a key.
            return Self {
                texts: literals_after_sensitive_words(sql),
            };
        };
        let mut texts = vec![];
        let mut is_secret = false;
        for token in &tokens {
            match token {
                Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) if is_secret => {
                    texts.push(text.clone());
                    is_secret = false;
                }
                Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => {
                    is_secret = is_sensitive_key(text);
                }
                Token::Word(word) if is_secret && !is_sensitive_key(&word.value) => {
                    texts.push(word.value.clone());
                    is_secret = false;
                }
                Token::Word(word) => is_secret = is_sensitive_key(&word.value),
                Token::Number(number, _) if is_secret => texts.push(number.clone()),
                Token::Comma | Token::RParen | Token::SemiColon => is_secret = false,
                _ => {}
            }
        }
        texts.retain(|text| !text.is_empty());
        // A secret that is part of another one must not cut it in pieces.
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        Self { texts }
    }

    /// The error, or one that says the same without secrets.
    pub(crate) fn hide(&self, error: DataFusionError) -> DataFusionError {
        let text = error.strip_backtrace();
        let mut shown = hide_credentials(&text).into_owned();
        for secret in &self.texts {
            shown = shown.replace(secret, HIDDEN);
        }
        match shown == text && !self.is_in(&format!("{error:?}")) {
            true => error,
            false => DataFusionError::External(shown.into()),
        }
    }

    fn is_in(&self, text: &str) -> bool {
        hide_credentials(text) != text || self.texts.iter().any(|secret| text.contains(secret))
    }
}

fn literals_after_sensitive_words(sql: &str) -> Vec<String> {
    let words = sql.split(|c: char| c.is_whitespace() || "'\"=(),;".contains(c));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let pairs = words.windows(2);
    let secrets = pairs.filter(|pair| is_sensitive_key(pair[0]) && !is_sensitive_key(pair[1]));
    secrets.map(|pair| pair[1].to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_behind_secret_keys_are_hidden() {
        for sql in [
            "CREATE TABLE t WITH ('password' = 'S-BBBB')",
            "CREATE EXTERNAL TABLE t OPTIONS ('aws.secret_access_key' 'S-BBBB')",
            "CREATE EXTERNAL TABLE t OPTIONS (aws.secret_access_key 'S-BBBB')",
            "CREATE EXTERNAL TABLE t OPTIONS ('token', 'x', password \"S-BBBB\")",
            "CREATE EXTERNAL TABLE t OPTIONS ('token' 'S-BBBB",
        ] {
            let error = DataFusionError::Plan("cannot use S-BBBB at 'http://a:b@c/'".to_owned());
            let shown = Secrets::of(sql).hide(error);
            let shown = format!("{shown} {shown:?}");
            assert!(
                !shown.contains("S-BBBB") && !shown.contains("a:b"),
                "{sql}: {shown}"
            );
        }
    }

    #[test]
    fn other_errors_stay_as_they_are() {
        let error = DataFusionError::Plan("no such column".to_owned());
        let error = Secrets::of("SELECT token, name FROM t").hide(error);
        assert!(matches!(error, DataFusionError::Plan(_)));
    }
}
