//! What to write instead: the way out of mistakes that people make who know other systems.

use datafusion::common::DataFusionError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use datafusion_partitioned_connector::did_you_mean;

/// The error, behind the advice.
pub(crate) fn with_advice(error: DataFusionError, advice: Option<&str>) -> DataFusionError {
    match advice {
        Some(advice) => error.context(advice),
        None => error,
    }
}

/// The right spelling of what a statement has in a usual wrong one.
pub(crate) fn advice(statement: &[TokenWithSpan]) -> Option<&'static str> {
    let tokens = statement.iter().map(|token| &token.token);
    let tokens: Vec<&Token> = tokens
        .filter(|token| !matches!(token, Token::Whitespace(_)))
        .collect();
    let words = Words(&tokens);
    let create = words.starts_with(&["CREATE"]);
    if create && words.has(&["EXTERNAL"]) {
        if words.has_misspelt_literal("connector") {
            return Some("the option that names the connector is 'connector'");
        }
        return if words.has(&["OPTIONS", "(", "'", "="]) || words.has(&["OPTIONS", "(", "'", ","]) {
            Some("options are written OPTIONS ('key' 'value', 'key' 'value')")
        } else if words.has(&["WITH", "("]) {
            Some(
                "CREATE EXTERNAL TABLE has OPTIONS ('key' 'value'); WITH ('key' = 'value') goes with \
                 CREATE TABLE, without EXTERNAL",
            )
        } else if words.has(&["PARTITION", "BY"]) {
            Some("the clause is PARTITIONED BY (column, column)")
        } else if words.has(&["STORED", "AS", "'"]) {
            Some("the format is a bare word, as in STORED AS PARQUET")
        } else {
            None
        };
    }
    if create && words.has(&["TABLE"]) {
        return if words.has(&["STORED", "AS"]) || words.has(&["LOCATION", "'"]) {
            Some(
                "a table with STORED AS and LOCATION is a CREATE EXTERNAL TABLE; Flink's CREATE TABLE has \
                 WITH ('connector' = '..', 'format' = '..', 'path' = '..')",
            )
        } else if words.has(&["WITH", "(", "'", "'"]) {
            Some("options are written WITH ('key' = 'value', 'key' = 'value')")
        } else {
            None
        };
    }
    if words.starts_with(&["ALTER", "TABLE"]) && words.has(&["PARTITIONS"]) {
        return Some("each partition is written PARTITION (column = value, column = value)");
    }
    if words.has(&["PARTITION"]) && !words.has(&["PARTITION", "("]) {
        let is_known = ["ALTER", "SHOW", "REFRESH", "TRUNCATE"];
        if is_known.iter().any(|word| words.starts_with(&[word]))
            && !words.has(&["SHOW", "PARTITION"])
        {
            return Some("a partition is written PARTITION (column = value, column = value)");
        }
    }
    if words.starts_with(&["SHOW", "PARTITION"]) {
        return Some("the statement is SHOW PARTITIONS t [PARTITION (..)] [WHERE ..]");
    }
    if words.starts_with(&["SHOW", "PARTITIONS"]) {
        return Some(
            "the statement is SHOW PARTITIONS t [PARTITION (..)] [WHERE ..]; for more, query the table \
             function: SELECT .. FROM partitions('t')",
        );
    }
    if words.starts_with(&["DROP", "PARTITION"]) || words.starts_with(&["ADD", "PARTITION"]) {
        return Some("the statement is ALTER TABLE t ADD | DROP PARTITION (column = value)");
    }
    if words.starts_with(&["REPAIR"]) || words.starts_with(&["MSCK"]) {
        return Some("the statement is MSCK REPAIR TABLE t [ADD | DROP | SYNC PARTITIONS]");
    }
    if words.starts_with(&["REFRESH"]) {
        return Some("the statement is REFRESH TABLE t [PARTITION (..)]");
    }
    for function in ["PARTITION_REPORT", "PARTITIONS", "TABLE_OPTIONS"] {
        if words.starts_with(&["SELECT"])
            && words.has(&[function, "("])
            && !words.has(&["FROM", function])
        {
            return Some(
                "it is a table function: SELECT * FROM partition_report(), partitions('t') or \
                 table_options('connector')",
            );
        }
    }
    None
}

/// The words of a statement, in which `'` stands for any literal.
struct Words<'a>(&'a [&'a Token]);

impl Words<'_> {
    fn starts_with(&self, words: &[&str]) -> bool {
        self.0.len() >= words.len() && Self::are(&self.0[..words.len()], words)
    }

    fn has(&self, words: &[&str]) -> bool {
        let mut windows = self.0.windows(words.len());
        windows.any(|tokens| Self::are(tokens, words))
    }

    /// Whether a literal is nearly `name`, and none is.
    fn has_misspelt_literal(&self, name: &str) -> bool {
        let literals = self.0.iter().filter_map(|token| match token {
            Token::SingleQuotedString(literal) => Some(literal.as_str()),
            _ => None,
        });
        let mut is_near = false;
        for literal in literals {
            if literal.eq_ignore_ascii_case(name) {
                return false;
            }
            is_near |= !did_you_mean(literal, [name]).is_empty();
        }
        is_near
    }

    fn are(tokens: &[&Token], words: &[&str]) -> bool {
        tokens.iter().zip(words).all(|(token, word)| match token {
            Token::SingleQuotedString(_) => *word == "'",
            Token::Word(text) => {
                text.quote_style.is_none() && text.value.eq_ignore_ascii_case(word)
            }
            other => other.to_string() == *word,
        })
    }
}
