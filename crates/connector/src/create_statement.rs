//! `CREATE TABLE .. WITH ('connector' = '..')`, as Flink spells it.
//!
//! It becomes DataFusion's `CREATE EXTERNAL TABLE`:
//!
//! | Flink | DataFusion |
//! |---|---|
//! | `'format' = 'parquet'` | `STORED AS PARQUET` |
//! | `'path' = '/lake/sales'` | `LOCATION '/lake/sales'` |
//! | `'key' = 'value'` | `OPTIONS ('key' 'value')` |
//! | `PRIMARY KEY (id) NOT ENFORCED` | the same, and nobody enforces it either |
//!
//! Both are optional here: a connector says what it needs.

use datafusion::common::config::SqlParserOptions;
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::sql::parser::{CreateExternalTable, DFParser, DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{ColumnDef, Ident, ObjectName, TableConstraint, Value};
use datafusion::sql::sqlparser::dialect::{Dialect, dialect_from_str};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// The dialect of the session.
///
/// # Errors
/// When there is none of this name.
pub fn sql_dialect(options: &SqlParserOptions) -> Result<Box<dyn Dialect>> {
    let name = &options.dialect;
    dialect_from_str(name).ok_or_else(|| plan_datafusion_err!("unknown SQL dialect '{name}'"))
}

/// One statement that creates a table, in either spelling.
pub(crate) fn parse(sql: &str, options: &SqlParserOptions) -> Result<Statement> {
    let dialect = sql_dialect(options)?;
    let mut parser = DFParserBuilder::new(sql)
        .with_dialect(dialect.as_ref())
        .with_recursion_limit(options.recursion_limit.get())
        .build()?;
    match is_create_table_with_connector(&parser.parser, 0) {
        true => parse_create_table(&mut parser).map(Statement::CreateExternalTable),
        false => parser.parse_statement(),
    }
}

/// Whether a statement begins at the token `first` that is for [`parse_create_table`]: `CREATE [OR REPLACE]
/// [TEMPORARY] TABLE .. WITH (..`, or with `PARTITIONED BY`. DataFusion has neither. Other statements are its own.
pub fn is_create_table_with_connector(parser: &Parser<'_>, first: usize) -> bool {
    let token = |index| parser.peek_nth_token_ref(first + index).token.clone();
    let is_word =
        |index, keyword| matches!(token(index), Token::Word(word) if word.keyword == keyword);
    if !is_word(0, Keyword::CREATE) {
        return false;
    }
    let mut index = 1;
    if is_word(index, Keyword::OR) && is_word(index + 1, Keyword::REPLACE) {
        index += 2;
    }
    if is_word(index, Keyword::TEMPORARY) || is_word(index, Keyword::TEMP) {
        index += 1;
    }
    if !is_word(index, Keyword::TABLE) {
        return false;
    }
    let mut depth = 0_usize;
    let mut has_clause = false;
    loop {
        index += 1;
        match token(index) {
            Token::EOF | Token::SemiColon => return has_clause,
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Word(word) if depth == 0 => match word.keyword {
                // The query of `CREATE TABLE .. AS`, which may have a `WITH` too; not `STORED AS`.
                Keyword::AS if !is_word(index - 1, Keyword::STORED) => return false,
                Keyword::PARTITIONED => has_clause = true,
                Keyword::WITH => has_clause |= token(index + 1) == Token::LParen,
                _ => {}
            },
            _ => {}
        }
    }
}

/// Parses `CREATE [OR REPLACE] [TEMPORARY] TABLE [IF NOT EXISTS] name (columns) [COMMENT '..']
/// [PARTITIONED BY (..)] WITH ('key' = 'value', ..)`.
///
/// # Errors
/// When it is not of this form, and for columns that only Flink has.
pub fn parse_create_table(parser: &mut DFParser<'_>) -> Result<CreateExternalTable> {
    let parser = &mut parser.parser;
    parser.expect_keyword(Keyword::CREATE)?;
    let or_replace = parser.parse_keywords(&[Keyword::OR, Keyword::REPLACE]);
    let temporary = parser
        .parse_one_of_keywords(&[Keyword::TEMPORARY, Keyword::TEMP])
        .is_some();
    parser.expect_keyword(Keyword::TABLE)?;
    let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let name = parser.parse_object_name(true)?;
    if if_not_exists && or_replace {
        return plan_err!("table '{name}': 'IF NOT EXISTS' and 'OR REPLACE' exclude each other");
    }
    let (mut columns, constraints) = parse_columns(parser, &name)?;
    if parser.parse_keyword(Keyword::COMMENT) {
        parser.parse_literal_string()?;
    }
    let mut table_partition_cols = vec![];
    if parser.parse_keywords(&[Keyword::PARTITIONED, Keyword::BY]) {
        table_partition_cols = parse_partition_columns(parser, &mut columns)?;
    }
    parser.expect_keyword(Keyword::WITH)?;
    let mut options = parse_option_list(parser)?;
    if !options
        .iter()
        .any(|(key, _)| key.eq_ignore_ascii_case("connector"))
    {
        return plan_err!(
            "table '{name}': missing option 'connector', as in WITH ('connector' = 'filesystem', 'format' = 'parquet', \
             'path' = '..')"
        );
    }
    let mut take = |key: &str| {
        let position = options
            .iter()
            .position(|(k, _)| k.eq_ignore_ascii_case(key));
        position.map(|position| options.remove(position).1)
    };
    let file_type = take("format").unwrap_or_default().to_uppercase();
    let location = take("path").unwrap_or_default();
    let options = options
        .into_iter()
        .map(|(key, value)| (key, Value::SingleQuotedString(value)))
        .collect();
    Ok(CreateExternalTable {
        name,
        columns,
        file_type,
        locations: vec![location],
        table_partition_cols,
        order_exprs: vec![],
        if_not_exists,
        or_replace,
        temporary,
        unbounded: false,
        options,
        constraints,
    })
}

/// The column list, without what Flink has beyond SQL.
fn parse_columns(
    parser: &mut Parser<'_>,
    table: &ObjectName,
) -> Result<(Vec<ColumnDef>, Vec<TableConstraint>)> {
    let mut index = 0;
    let mut depth = 0_usize;
    let mut column = String::new();
    loop {
        let token = parser.peek_nth_token_ref(index).token.clone();
        let next = parser.peek_nth_token_ref(index + 1).token.clone();
        match &token {
            Token::EOF | Token::SemiColon => break,
            Token::LParen => depth += 1,
            Token::RParen => depth -= usize::from(depth > 0),
            _ => {}
        }
        if depth == 0 {
            break;
        }
        if depth == 1 && matches!(token, Token::LParen | Token::Comma) {
            column = next.to_string();
            if is_word(&next, "WATERMARK") {
                return plan_err!(
                    "table '{table}': WATERMARK is for streams, which are not supported; leave it out"
                );
            }
            let kind = parser.peek_nth_token_ref(index + 2).token.clone();
            if is_word(&kind, "AS") {
                return plan_err!(
                    "table '{table}': '{column}' is a computed column, which is not supported; compute \
                     it in a view over the table"
                );
            }
        }
        if depth == 1 && is_word(&token, "METADATA") {
            return plan_err!(
                "table '{table}': '{column}' is a METADATA column, which is not supported; the option \
                 'metadata.columns' of the connector 'filesystem' adds columns that describe files"
            );
        }
        index += 1;
    }
    Ok(parser.parse_columns()?)
}

fn is_word(token: &Token, text: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text))
}

/// Names of declared columns, as in Flink, or definitions, as in Hive.
fn parse_partition_columns(
    parser: &mut Parser<'_>,
    columns: &mut Vec<ColumnDef>,
) -> Result<Vec<String>> {
    let behind_name = parser.peek_nth_token_ref(2).token.clone();
    if matches!(behind_name, Token::Comma | Token::RParen) {
        let names = parser.parse_parenthesized_column_list(
            datafusion::sql::sqlparser::parser::IsOptional::Mandatory,
            false,
        )?;
        return Ok(names.iter().map(Ident::to_string).collect());
    }
    let (definitions, _) = parser.parse_columns()?;
    let names = definitions.iter().map(|column| column.name.to_string());
    let names = names.collect();
    columns.extend(definitions);
    Ok(names)
}

/// Options as Flink writes them, `('key' = 'value', ..)`, in their order.
///
/// # Errors
/// When something else stands there.
pub fn parse_option_list(parser: &mut Parser<'_>) -> Result<Vec<(String, String)>, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let options = parser.parse_comma_separated(|parser| {
        let key = parser.parse_literal_string()?;
        parser.expect_token(&Token::Eq)?;
        Ok((key, parser.parse_literal_string()?))
    })?;
    parser.expect_token(&Token::RParen)?;
    Ok(options)
}
