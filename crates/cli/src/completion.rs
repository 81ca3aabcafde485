//! What Tab offers at the prompt, and where an entry ends.
//!
//! Everything offered is known to the session: nothing waits for a catalog elsewhere.

use std::sync::Arc;

use clap::ValueEnum;
use datafusion::catalog::SchemaProvider;
use datafusion::common::TableReference;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer, Word};
use datafusion_partitioned::sql::is_complete;
use futures::FutureExt;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};

use crate::args::OutputFormat;
use crate::command::{COMMANDS, Command, SETTINGS, functions};

/// The words of SQL that are worth to be completed.
const KEYWORDS: &[&str] = &[
    "ADD",
    "ALL",
    "ALTER",
    "ANALYZE",
    "AND",
    "ANTI",
    "ARROW",
    "AS",
    "ASC",
    "AVRO",
    "BETWEEN",
    "BIGINT",
    "BOOLEAN",
    "BY",
    "CASE",
    "CAST",
    "COPY",
    "CREATE",
    "CROSS",
    "CSV",
    "DATABASE",
    "DATE",
    "DECIMAL",
    "DESC",
    "DESCRIBE",
    "DISTINCT",
    "DOUBLE",
    "DROP",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "EXPLAIN",
    "EXTERNAL",
    "FALSE",
    "FILTER",
    "FIRST",
    "FLOAT",
    "FORMAT",
    "FROM",
    "FULL",
    "FUNCTIONS",
    "GROUP",
    "HAVING",
    "IN",
    "INNER",
    "INSERT",
    "INT",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "JSON",
    "LAST",
    "LEFT",
    "LIKE",
    "LIMIT",
    "LOCATION",
    "MSCK",
    "NOT",
    "NULL",
    "NULLS",
    "OFFSET",
    "ON",
    "OPTIONS",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "PARQUET",
    "PARTITION",
    "PARTITIONED",
    "PARTITIONS",
    "PURGE",
    "REFRESH",
    "REPAIR",
    "REPLACE",
    "RESET",
    "RIGHT",
    "ROWS",
    "SCHEMA",
    "SELECT",
    "SEMI",
    "SET",
    "SHOW",
    "SMALLINT",
    "STORED",
    "SYNC",
    "TABLE",
    "TABLES",
    "THEN",
    "TIMESTAMP",
    "TREE",
    "TRUE",
    "TRUNCATE",
    "UNION",
    "UNNEST",
    "USING",
    "VALUES",
    "VARCHAR",
    "VERBOSE",
    "VIEW",
    "WHEN",
    "WHERE",
    "WITH",
];

/// The words that stand before the name of a table.
const BEFORE_TABLES: [&str; 9] = [
    "FROM",
    "JOIN",
    "INTO",
    "TABLE",
    "DESCRIBE",
    "UPDATE",
    "COPY",
    "VIEW",
    "PARTITIONS",
];

/// Completes entries, and finds their ends.
pub(crate) struct SqlHelper {
    context: SessionContext,
}

impl SqlHelper {
    /// For entries that run in this session.
    pub(crate) fn new(context: SessionContext) -> Self {
        Self { context }
    }

    /// Where the word begins that is to be completed, and by what it can be replaced.
    fn candidates(&self, text: &str, position: usize) -> (usize, Vec<String>) {
        let before = &text[..position];
        let found = if before.starts_with('\\') {
            self.after_backslash(before)
        } else {
            self.in_sql(text, before)
        };
        let (start, mut candidates) = found;
        candidates.sort_unstable();
        candidates.dedup();
        (start, candidates)
    }

    fn after_backslash(&self, before: &str) -> (usize, Vec<String>) {
        let start = before
            .rfind(char::is_whitespace)
            .map_or(0, |space| space + 1);
        let (words, word) = before.split_at(start);
        let words: Vec<_> = words.split_whitespace().collect();
        let offered: Vec<String> = match words.as_slice() {
            [] => COMMANDS
                .iter()
                .map(|(name, ..)| (*name).to_owned())
                .collect(),
            ["\\d"] => return (start, self.tables(word)),
            ["\\h"] => functions(&self.context),
            ["\\pset"] => SETTINGS.map(str::to_owned).to_vec(),
            ["\\pset", "format"] => {
                let formats = OutputFormat::value_variants().iter();
                formats.map(ToString::to_string).collect()
            }
            ["\\quiet" | "\\timing"] => vec!["on".to_owned(), "off".to_owned()],
            _ => vec![],
        };
        (start, with_prefix(offered, word))
    }

    fn in_sql(&self, text: &str, before: &str) -> (usize, Vec<String>) {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '"');
        let start = before.trim_end_matches(is_part).len();
        let (before, word) = before.split_at(start);
        if is_in_literal(before) {
            return (start, vec![]);
        }
        let tokens = tokens(before);
        let statement = tokens.rsplit(|token| *token == Token::SemiColon).next();
        let words: Vec<&str> = statement
            .unwrap_or_default()
            .iter()
            .filter_map(|token| match token {
                Token::Word(word) => Some(word.value.as_str()),
                _ => None,
            })
            .collect();
        let is = |word: Option<&&str>, names: &[&str]| {
            word.is_some_and(|word| names.iter().any(|name| word.eq_ignore_ascii_case(name)))
        };
        if is(words.first(), &["SET", "SHOW", "RESET"]) && words.len() == 1 {
            let shown = [
                "TABLES",
                "PARTITIONS",
                "FUNCTIONS",
                "CREATE",
                "COLUMNS",
                "ALL",
            ];
            let mut offered = with_prefix(in_case_of(word, &shown), word);
            // Options are in small letters.
            if offered.is_empty() || !word.starts_with(char::is_uppercase) {
                offered.extend(with_prefix(self.options(), word));
            }
            return (start, offered);
        }
        let ends_with_word = matches!(tokens.last(), Some(Token::Word(_)));
        if is(words.last(), &BEFORE_TABLES) && ends_with_word {
            return (start, self.tables(word));
        }
        if let Some((qualifier, _)) = word.rsplit_once('.') {
            let columns = self.columns_of(text, qualifier);
            let columns = columns
                .iter()
                .map(|name| format!("{qualifier}.{}", quote(name)));
            let mut offered = with_prefix(columns.collect(), word);
            offered.extend(self.tables(word));
            return (start, offered);
        }
        // The word itself would be the alias of the table before it.
        let rest = &text[start + word.len()..];
        let mentioned = self.mentioned(&format!("{before} {rest}"));
        let columns = mentioned.iter().flat_map(|table| table.columns.iter());
        let mut offered: Vec<String> = columns.map(|name| quote(name)).collect();
        let aliases = mentioned.iter().filter_map(|table| table.alias.clone());
        offered.extend(aliases);
        if word.is_empty() {
            return (start, offered);
        }
        offered.extend(functions(&self.context).into_iter().map(|name| name + "("));
        let mut offered = with_prefix(offered, word);
        offered.extend(with_prefix(in_case_of(word, KEYWORDS), word));
        (start, offered)
    }

    /// Tables, schemas and catalogs whose name begins with `word`, which may be qualified.
    fn tables(&self, word: &str) -> Vec<String> {
        let config = self.context.copied_config();
        let defaults = &config.options().catalog;
        let of_schema = |catalog: &str, schema: &str| -> Vec<String> {
            let schema = self.schema(catalog, schema);
            schema.map_or_else(Vec::new, |schema| schema.table_names())
        };
        let of_catalog = |catalog: &str| -> Vec<String> {
            let catalog = self.context.catalog(catalog);
            catalog.map_or_else(Vec::new, |catalog| catalog.schema_names())
        };
        let qualified = |qualifier: &str, names: Vec<String>| -> Vec<String> {
            let names = names.into_iter();
            names
                .map(|name| format!("{qualifier}.{}", quote(&name)))
                .collect()
        };
        let offered = match word.rsplit_once('.') {
            None => {
                let mut offered = of_schema(&defaults.default_catalog, &defaults.default_schema);
                offered.extend(of_catalog(&defaults.default_catalog));
                offered.extend(self.context.catalog_names());
                let table_functions = self.context.state();
                let table_functions = table_functions.table_functions().keys();
                let mut offered: Vec<_> = offered.iter().map(|name| quote(name)).collect();
                offered.extend(table_functions.map(|name| format!("{name}(")));
                offered
            }
            Some((qualifier, _)) => match qualifier.split_once('.') {
                Some((catalog, schema)) => {
                    qualified(qualifier, of_schema(&unquote(catalog), &unquote(schema)))
                }
                None => {
                    let name = unquote(qualifier);
                    let mut offered = of_schema(&defaults.default_catalog, &name);
                    offered.extend(of_catalog(&name));
                    qualified(qualifier, offered)
                }
            },
        };
        with_prefix(offered, word)
    }

    fn options(&self) -> Vec<String> {
        let config = self.context.copied_config();
        let entries = config.options().entries().into_iter();
        entries.map(|entry| entry.key).collect()
    }

    fn schema(&self, catalog: &str, schema: &str) -> Option<Arc<dyn SchemaProvider>> {
        self.context.catalog(catalog)?.schema(schema)
    }

    /// The columns of a table, if they are known at once.
    fn columns(&self, name: &TableReference) -> Option<Vec<String>> {
        let config = self.context.copied_config();
        let defaults = &config.options().catalog;
        let name = name
            .clone()
            .resolve(&defaults.default_catalog, &defaults.default_schema);
        let schema = self.schema(&name.catalog, &name.schema)?;
        if !schema.table_exist(&name.table) {
            return None;
        }
        let table = schema.table(&name.table).now_or_never()?.ok()??;
        let fields = table.schema();
        let fields = fields.fields().iter();
        Some(fields.map(|field| field.name().clone()).collect())
    }

    /// The columns of what is called `qualifier` in the entry.
    fn columns_of(&self, text: &str, qualifier: &str) -> Vec<String> {
        let name = unquote(qualifier);
        let mentioned = self.mentioned(text).into_iter();
        let mut tables = mentioned.filter(|table| {
            table.alias.as_deref().map(unquote).as_deref() == Some(&name) || table.name == name
        });
        tables.next().map_or_else(Vec::new, |table| table.columns)
    }

    /// The tables whose names stand in the entry.
    fn mentioned(&self, text: &str) -> Vec<Mentioned> {
        let tokens = tokens(text);
        let mut mentioned = vec![];
        let mut position = 0;
        while position < tokens.len() {
            let mut parts = vec![];
            while let Some(Token::Word(word)) = tokens.get(position) {
                parts.push(value(word));
                position += 1;
                if tokens.get(position) != Some(&Token::Period) {
                    break;
                }
                position += 1;
            }
            let name = match parts.as_slice() {
                [table] => TableReference::bare(table.as_str()),
                [schema, table] => TableReference::partial(schema.as_str(), table.as_str()),
                [catalog, schema, table] => {
                    TableReference::full(catalog.as_str(), schema.as_str(), table.as_str())
                }
                _ => {
                    position += usize::from(parts.is_empty());
                    continue;
                }
            };
            let Some(columns) = self.columns(&name) else {
                continue;
            };
            let mut next = tokens[position..].iter();
            let mut alias = next.next();
            if matches!(alias, Some(Token::Word(word)) if word.value.eq_ignore_ascii_case("AS")) {
                alias = next.next();
            }
            let alias = match alias {
                Some(Token::Word(word)) if !is_keyword(&word.value) => Some(quote(&value(word))),
                _ => None,
            };
            mentioned.push(Mentioned {
                name: name.table().to_owned(),
                alias,
                columns,
            });
        }
        mentioned
    }
}

/// A table that an entry names.
struct Mentioned {
    name: String,
    alias: Option<String>,
    columns: Vec<String>,
}

/// The tokens of a text as far as it is SQL, without spaces.
fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = vec![];
    let _ = Tokenizer::new(&GenericDialect {}, text).tokenize_with_location_into_buf(&mut tokens);
    let tokens = tokens.into_iter().map(|token| token.token);
    tokens
        .filter(|token| !matches!(token, Token::Whitespace(_)))
        .collect()
}

fn is_in_literal(before: &str) -> bool {
    before.matches('\'').count() % 2 == 1
}

fn is_keyword(word: &str) -> bool {
    KEYWORDS
        .iter()
        .any(|keyword| keyword.eq_ignore_ascii_case(word))
}

/// Keywords in small letters if the word begins so.
fn in_case_of(word: &str, keywords: &[&str]) -> Vec<String> {
    let is_small = word.starts_with(char::is_lowercase);
    let keywords = keywords.iter().map(|keyword| match is_small {
        true => keyword.to_lowercase(),
        false => (*keyword).to_owned(),
    });
    keywords.collect()
}

/// What an identifier stands for.
fn value(word: &Word) -> String {
    match word.quote_style {
        Some(_) => word.value.clone(),
        None => word.value.to_lowercase(),
    }
}

/// What a part of a name stands for.
fn unquote(name: &str) -> String {
    match name.strip_prefix('"') {
        Some(quoted) => quoted.trim_end_matches('"').replace("\"\"", "\""),
        None => name.to_lowercase(),
    }
}

/// A name as it has to be written.
fn quote(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    match is_plain && !is_keyword(name) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// Those that begin with `word`, whether in small or in capital letters, and quoted or not.
fn with_prefix(mut offered: Vec<String>, word: &str) -> Vec<String> {
    let plain = |text: &str| text.replace('"', "").to_lowercase();
    let word = plain(word);
    offered.retain(|candidate| plain(candidate).starts_with(&word));
    offered
}

impl Completer for SqlHelper {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> Result<(usize, Vec<String>), ReadlineError> {
        Ok(self.candidates(line, position))
    }
}

impl Validator for SqlHelper {
    /// An entry is a command, or statements up to a `;` that is not part of a literal or a comment.
    fn validate(
        &self,
        context: &mut ValidationContext<'_>,
    ) -> Result<ValidationResult, ReadlineError> {
        let entry = context.input();
        let config = self.context.copied_config();
        let is_whole = entry.trim().is_empty()
            || Command::parse(entry).is_some()
            || is_complete(entry, &config.options().sql_parser);
        Ok(match is_whole {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}

impl Hinter for SqlHelper {
    type Hint = String;
}

impl Highlighter for SqlHelper {}

impl Helper for SqlHelper {}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn keywords_follow_the_case_of_what_is_typed() {
        let helper = helper().await;
        assert_eq!(completed(&helper, "SEL|"), ["SELECT"]);
        assert_eq!(completed(&helper, "sel|"), ["select"]);
        assert_eq!(completed(&helper, "SELECT 1 FROM sales WHER|"), ["WHERE"]);
        let clause = completed(&helper, "CREATE TABLE x (a INT) PARTITIONED B|");
        assert!(clause.contains(&"BY".to_owned()), "{clause:?}");
    }

    #[tokio::test]
    async fn statements_about_partitions_are_completed() {
        let helper = helper().await;
        assert_eq!(completed(&helper, "SHOW PART|"), ["PARTITIONS"]);
        let small = completed(&helper, "show parti|");
        assert!(small.contains(&"partitions".to_owned()), "{small:?}");
        assert_eq!(completed(&helper, "SHOW PARTITIONS sa|"), ["sales"]);
        for (text, word) in [
            ("ALT", "ALTER"),
            ("MS", "MSCK"),
            ("REF", "REFRESH"),
            ("TRUN", "TRUNCATE"),
        ] {
            let offered = completed(&helper, &format!("{text}|"));
            assert!(offered.contains(&word.to_owned()), "{offered:?}");
        }
        assert_eq!(completed(&helper, "MSCK REPA|"), ["REPAIR"]);
        assert_eq!(completed(&helper, "ALTER TABLE sales DRO|"), ["DROP"]);
    }

    #[tokio::test]
    async fn tables_come_behind_from_with_schemas_and_catalogs() {
        let helper = helper().await;
        assert_eq!(completed(&helper, "SELECT * FROM sa|"), ["sales"]);
        assert_eq!(
            completed(&helper, "SELECT * FROM public.|"),
            ["public.\"Odd name\"", "public.sales"]
        );
        assert_eq!(
            completed(&helper, "SELECT * FROM datafusion.pub|"),
            ["datafusion.public"]
        );
        assert_eq!(
            completed(&helper, "SELECT 1 FROM datafusion.public.sa|"),
            ["datafusion.public.sales"]
        );
        assert_eq!(
            completed(&helper, "SELECT * FROM partition_re|"),
            ["partition_report("]
        );
        assert_eq!(completed(&helper, "SELECT * FROM odd|"), ["\"Odd name\""]);
    }

    #[tokio::test]
    async fn columns_are_those_of_the_tables_of_the_entry() {
        let helper = helper().await;
        assert_eq!(completed(&helper, "SELECT amo| FROM sales"), ["amount"]);
        assert_eq!(
            completed(&helper, "SELECT | FROM sales s"),
            ["\"Day\"", "amount", "s"]
        );
        assert_eq!(
            completed(&helper, "SELECT s.| FROM sales AS s"),
            ["s.\"Day\"", "s.amount"]
        );
        assert_eq!(
            completed(&helper, "SELECT 1 FROM sales WHERE sales.d|"),
            ["sales.\"Day\""]
        );
        assert_eq!(completed(&helper, "SELECT amo|").len(), 0);
    }

    #[tokio::test]
    async fn functions_options_and_commands_are_completed() {
        let helper = helper().await;
        assert_eq!(completed(&helper, "SELECT date_tr|"), ["date_trunc("]);
        assert_eq!(
            completed(&helper, "SET partitioned.list_cache.t|"),
            ["partitioned.list_cache.ttl"]
        );
        assert_eq!(completed(&helper, "\\ti|"), ["\\timing"]);
        assert_eq!(completed(&helper, "\\d sal|"), ["sales"]);
        assert_eq!(completed(&helper, "\\pset f|"), ["format"]);
        assert_eq!(completed(&helper, "\\pset format t|"), ["table", "tsv"]);
        assert_eq!(completed(&helper, "SELECT 'sel|").len(), 0);
    }

    /// By what the word in front of `|` can be replaced.
    fn completed(helper: &SqlHelper, text: &str) -> Vec<String> {
        let position = text.find('|').unwrap();
        helper.candidates(&text.replace('|', ""), position).1
    }

    async fn helper() -> SqlHelper {
        use datafusion_partitioned::prelude::PartitionedSessionExt;

        let context = SessionContext::new().with_partitioned();
        for table in ["sales", "\"Odd name\""] {
            let sql = format!("CREATE TABLE {table} (amount DOUBLE, \"Day\" DATE)");
            context.sql(&sql).await.unwrap();
        }
        SqlHelper::new(context)
    }
}
