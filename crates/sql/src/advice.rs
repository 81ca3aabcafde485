//! What to write instead: the way out of mistakes that people make who know other systems.

use datafusion::common::{DataFusionError, SchemaError, plan_datafusion_err};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The error, behind what the statement should be if it cannot be read, or what the error does not say.
pub(crate) fn with_advice(error: DataFusionError, syntax: Option<&'static str>) -> DataFusionError {
    let root = error.find_root();
    let way_out = match root {
        DataFusionError::SQL(..) => syntax.map(str::to_owned),
        _ => way_out(root),
    };
    match (way_out, meant(root)) {
        (_, Some(text)) => plan_datafusion_err!("{text}"),
        (Some(text), None) => error.context(text),
        (None, None) => error,
    }
}

/// What was meant by a name of this project that DataFusion does not know.
fn meant(error: &DataFusionError) -> Option<&'static str> {
    let (DataFusionError::Plan(text) | DataFusionError::Configuration(text)) = error else {
        return None;
    };
    let names = NAMES.iter();
    let mut names = names.filter(|(beginning, _)| text.starts_with(beginning));
    names.next().map(|(_, meant)| *meant)
}

/// What to do about an error of DataFusion that does not say it.
fn way_out(error: &DataFusionError) -> Option<String> {
    Some(match error {
        DataFusionError::Plan(text) => {
            let schema = text.strip_prefix("failed to resolve schema: ")?;
            format!("there is no schema '{schema}'; CREATE SCHEMA {schema} makes one")
        }
        DataFusionError::SchemaError(error, _) => match error.as_ref() {
            SchemaError::DuplicateUnqualifiedField { name } => format!(
                "column '{name}' is declared twice; remove one: a type in PARTITIONED BY declares a column too"
            ),
            _ => return None,
        },
        DataFusionError::NotImplemented(text)
            if text.starts_with("Unsupported file compression type") =>
        {
            "option 'compression': expected gzip, bzip2, xz, zstd or uncompressed".to_owned()
        }
        DataFusionError::NotImplemented(text) => {
            let name = text.strip_prefix("Unsupported SQL type ")?;
            format!(
                "'{name}' is no type of a column; expected one such as INT, BIGINT, DOUBLE, TEXT, DATE or TIMESTAMP"
            )
        }
        _ => return None,
    })
}

const HIVE_CLAUSES: [&[&str]; 7] = [
    &["CLUSTERED", "BY"],
    &["SORTED", "BY"],
    &["SKEWED", "BY"],
    &["ROW", "FORMAT"],
    &["STORED", "BY"],
    &["TBLPROPERTIES"],
    &[")", "COMMENT"],
];

/// What a statement begins with, what else it has, and what it should be.
type Rule = (
    &'static [&'static str],
    &'static [&'static str],
    &'static str,
);

const SHOW_PARTITIONS: &str = "the statement is SHOW PARTITIONS t [PARTITION (..)] [WHERE ..]; for more, query the table function: \
     SELECT .. FROM partitions('t')";
const MSCK: &str = "the statement is MSCK REPAIR TABLE t [ADD | DROP | SYNC PARTITIONS]";
const PARTITION: &str = "each partition is written PARTITION (column = value, column = value)";
const ALTER_TABLE: &str = "the statement is ALTER TABLE t ADD | DROP PARTITION (column = value)";

/// Statements that cannot be read.
const SYNTAX: [Rule; 9] = [
    (&["SHOW", "PARTITIONS"], &[], SHOW_PARTITIONS),
    (&["ALTER", "TABLE"], &["RECOVER"], MSCK),
    (&["ALTER", "TABLE"], &["PARTITIONS"], PARTITION),
    (&["ALTER"], &["PARTITION"], PARTITION),
    (&["DROP", "PARTITION"], &[], ALTER_TABLE),
    (&["ADD", "PARTITION"], &[], ALTER_TABLE),
    (&["REPAIR"], &[], MSCK),
    (&["MSCK"], &[], MSCK),
    (
        &["REFRESH"],
        &[],
        "the statement is REFRESH TABLE t [PARTITION (..)]",
    ),
];

const TABLE_FUNCTION: &str = "it is a table function: SELECT * FROM partition_report(), partitions('t') or \
     table_options('connector')";

/// How the error begins for a name that is not there, and what was meant.
const NAMES: [(&str, &str); 7] = [
    ("Invalid function 'partition_report'", TABLE_FUNCTION),
    ("Invalid function 'partitions'", TABLE_FUNCTION),
    ("Invalid function 'table_options'", TABLE_FUNCTION),
    (
        "table function 'partition' not found",
        "the table function is partitions('t')",
    ),
    ("'partition.", SHOW_PARTITIONS),
    ("'partitions' is not a variable", SHOW_PARTITIONS),
    (
        "Could not find config namespace \"partitioned\"",
        "RESET knows the options of DataFusion; SET partitioned.key = value sets one of these, and SHOW ALL VERBOSE \
         describes them with their defaults",
    ),
];

/// The right spelling of what a statement has in a usual wrong one.
pub(crate) fn advice(statement: &[TokenWithSpan]) -> Option<&'static str> {
    let tokens = statement.iter().map(|token| &token.token);
    let tokens: Vec<&Token> = tokens
        .filter(|token| !matches!(token, Token::Whitespace(_)))
        .collect();
    Words(&tokens).syntax()
}

/// The words of a statement, in which `'` stands for any literal.
struct Words<'a>(&'a [&'a Token]);

impl Words<'_> {
    fn syntax(&self) -> Option<&'static str> {
        let is_create = self.starts_with(&["CREATE"]);
        if self.has(&["IF", "NOT", "EXIST"]) {
            return Some("the clause is IF NOT EXISTS");
        }
        if is_create && self.has(&["OR", "REPLACE"]) && self.has(&["IF", "NOT", "EXISTS"]) {
            return Some("leave one out: OR REPLACE makes the table anew, IF NOT EXISTS leaves it");
        }
        if is_create && self.has(&["EXTERNAL"]) {
            return self.create_external_table();
        }
        if is_create && self.has(&["TABLE"]) {
            return self.create_table();
        }
        let has_partition = ["SHOW", "REFRESH", "TRUNCATE"];
        let mut has_partition = has_partition.iter();
        if has_partition.any(|word| self.starts_with(&[word]))
            && self.is_wrong(&["PARTITION"], &["("])
        {
            return Some(PARTITION);
        }
        self.first_of(&SYNTAX)
    }

    fn create_external_table(&self) -> Option<&'static str> {
        if HIVE_CLAUSES.iter().any(|clause| self.has(clause)) {
            return Some(
                "CLUSTERED BY, SORTED BY, SKEWED BY, ROW FORMAT, STORED BY, TBLPROPERTIES and COMMENT of Hive are not \
                 supported; leave them out, or see what table_options('filesystem') has for OPTIONS ('key' 'value')",
            );
        }
        if self.has(&["WITH", "("]) {
            return Some(
                "CREATE EXTERNAL TABLE has OPTIONS ('key' 'value'); WITH ('key' = 'value') goes with \
                 CREATE TABLE, without EXTERNAL",
            );
        }
        if self.is_wrong(&["OPTIONS"], &["(", "'", "'"]) || self.has(&["'", "'", "'"]) {
            return Some("options are written OPTIONS ('key' 'value', 'key' 'value')");
        }
        if self.has(&["PARTITION", "BY"])
            || self.is_wrong(&["PARTITIONED"], &["BY", "("])
            || self.has(&["PARTITIONED", "BY", "(", "'"])
        {
            return Some("the clause is PARTITIONED BY (column, column)");
        }
        if self.has_some_types_in_partitioned_by() {
            return Some(
                "PARTITIONED BY has the names of declared columns, (year, month), or declares all of them, \
                 (year INT, month INT)",
            );
        }
        if self.has(&["STORED", "AS", "'"]) {
            return Some("the format is a bare word, as in STORED AS PARQUET");
        }
        if !self.has(&["STORED", "AS"]) {
            return Some("add STORED AS PARQUET, or another of CSV, TSV, JSON, ARROW and AVRO");
        }
        if !self.has(&["LOCATION"]) {
            return Some("add LOCATION 's3://bucket/folder/', or the path of a local folder");
        }
        None
    }

    fn create_table(&self) -> Option<&'static str> {
        let of_external: [&[&str]; 4] = [
            &["STORED", "AS"],
            &["LOCATION", "'"],
            &[")", "USING"],
            &["PARTITIONED", "BY"],
        ];
        if self.is_wrong(&["WITH", "("], &["'", "=", "'"]) || self.has(&["=", "'", "'"]) {
            return Some("options are written WITH ('key' = 'value', 'key' = 'value')");
        }
        if !self.has(&["WITH", "("]) && of_external.iter().any(|clause| self.has(clause)) {
            return Some(
                "a partitioned table is a CREATE EXTERNAL TABLE with STORED AS and LOCATION, or Flink's CREATE TABLE \
                 with WITH ('connector' = '..', 'format' = '..', 'path' = '..')",
            );
        }
        None
    }

    /// Whether some columns have a type in PARTITIONED BY, and others have none.
    fn has_some_types_in_partitioned_by(&self) -> bool {
        let clause = ["PARTITIONED", "BY", "("];
        let mut windows = self.0.windows(clause.len());
        let Some(start) = windows.position(|tokens| Self::are(tokens, &clause)) else {
            return false;
        };
        let mut depth = 0;
        let mut lengths = vec![0];
        for token in &self.0[start + clause.len()..] {
            match token {
                Token::RParen if depth == 0 => break,
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                Token::Comma if depth == 0 => lengths.push(0),
                _ => {}
            }
            if !matches!(token, Token::Comma) {
                lengths
                    .last_mut()
                    .into_iter()
                    .for_each(|length| *length += 1);
            }
        }
        lengths.contains(&1) && lengths.iter().any(|length| *length > 1)
    }

    fn first_of(&self, rules: &[Rule]) -> Option<&'static str> {
        let mut rules = rules.iter();
        let rule = rules.find(|(first, has, _)| self.starts_with(first) && self.has(has));
        rule.map(|(.., text)| *text)
    }

    fn starts_with(&self, words: &[&str]) -> bool {
        self.0.len() >= words.len() && Self::are(&self.0[..words.len()], words)
    }

    fn has(&self, words: &[&str]) -> bool {
        if words.is_empty() {
            return true;
        }
        let mut windows = self.0.windows(words.len());
        windows.any(|tokens| Self::are(tokens, words))
    }

    /// Whether `clause` is there, but not with `behind`.
    fn is_wrong(&self, clause: &[&str], behind: &[&str]) -> bool {
        self.has(clause) && !self.has(&[clause, behind].concat())
    }

    fn are(tokens: &[&Token], words: &[&str]) -> bool {
        tokens.iter().zip(words).all(|(token, word)| match token {
            Token::SingleQuotedString(_) | Token::Number(..) => *word == "'",
            Token::Word(text) => {
                text.quote_style.is_none() && text.value.eq_ignore_ascii_case(word)
            }
            other => other.to_string() == *word,
        })
    }
}
