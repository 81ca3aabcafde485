//! A text as a list of statements.
//!
//! The dialect is the one that the session is set to before the first of them runs.

use datafusion::common::config::SqlParserOptions;
use datafusion::common::{Result, plan_datafusion_err};
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::dialect::{Dialect, dialect_from_str};
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// A statement of a text, or what is wrong with it.
#[derive(Debug)]
pub(crate) struct SplitStatement {
    /// The line on which the statement begins, from 1.
    pub(crate) line: u64,
    /// The statement, or the syntax error.
    pub(crate) statement: Result<Statement>,
}

/// Splits a text into statements. The first syntax error ends the list.
pub(crate) fn split(sql: &str, options: &SqlParserOptions) -> Vec<SplitStatement> {
    let mut statements = vec![];
    if let Err(error) = split_into(&mut statements, sql, options) {
        // The text as a whole is not SQL, so that there is no better place to point to.
        statements.push(SplitStatement {
            line: 1,
            statement: Err(error),
        });
    }
    statements
}

fn split_into(
    statements: &mut Vec<SplitStatement>,
    sql: &str,
    options: &SqlParserOptions,
) -> Result<()> {
    let dialect = dialect(options)?;
    let mut parser = DFParserBuilder::new(sql)
        .with_dialect(dialect.as_ref())
        .with_recursion_limit(options.recursion_limit.get())
        .build()?;
    loop {
        while parser.parser.consume_token(&Token::SemiColon) {}
        let first = parser.parser.peek_token();
        if first.token == Token::EOF {
            return Ok(());
        }
        let statement = parser.parse_statement().and_then(|statement| {
            let next = parser.parser.peek_token();
            match next.token {
                Token::EOF | Token::SemiColon => Ok(statement),
                _ => Ok(parser.parser.expected("end of statement", next)?),
            }
        });
        let is_last = statement.is_err();
        statements.push(SplitStatement {
            line: first.span.start.line,
            statement,
        });
        if is_last {
            return Ok(());
        }
    }
}

/// Whether the text ends with a `;` that is not part of a literal or a comment.
pub(crate) fn is_complete(sql: &str, options: &SqlParserOptions) -> bool {
    let Ok(dialect) = dialect(options) else {
        // Running the text is what reports the unknown dialect.
        return true;
    };
    let tokens = Tokenizer::new(dialect.as_ref(), sql)
        .tokenize()
        .unwrap_or_default();
    let last = tokens
        .iter()
        .rfind(|token| !matches!(token, Token::Whitespace(_)));
    last == Some(&Token::SemiColon)
}

fn dialect(options: &SqlParserOptions) -> Result<Box<dyn Dialect>> {
    let name = &options.dialect;
    dialect_from_str(name).ok_or_else(|| plan_datafusion_err!("unknown SQL dialect '{name}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_keeps_lines_and_ignores_empty_statements() {
        let statements = split_default("-- note; still a note\nSELECT ';';;\n\nSHOW\nTABLES");
        let lines: Vec<_> = statements.iter().map(|statement| statement.line).collect();
        assert_eq!(lines, [2, 4]);
        assert!(
            statements
                .iter()
                .all(|statement| statement.statement.is_ok())
        );
        assert!(split_default(" ; -- nothing").is_empty());
    }

    #[test]
    fn split_ends_at_the_first_syntax_error() {
        let statements = split_default("SELECT 1;\nSELECT 2 SELECT 3;\nSELECT 4");
        assert_eq!(statements.len(), 2);
        assert_eq!(statements[1].line, 2);
        assert!(statements[1].statement.is_err());
    }

    #[test]
    fn statements_end_with_a_semicolon_of_their_own() {
        let is_complete = |sql| is_complete(sql, &SqlParserOptions::default());
        assert!(is_complete("SELECT 1;\n"));
        assert!(is_complete("SELECT 1; -- done\n"));
        assert!(is_complete("SELECT ';';"));
        assert!(!is_complete("SELECT 1\n"));
        assert!(!is_complete("SELECT 1 -- not yet;\n"));
        assert!(!is_complete("SELECT ';\n"));
    }

    fn split_default(sql: &str) -> Vec<SplitStatement> {
        split(sql, &SqlParserOptions::default())
    }
}
