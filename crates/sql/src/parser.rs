//! A text as a list of statements: those about partitions, and everything that DataFusion has.
//!
//! The dialect is the one that the session is set to before the first of them runs.

use std::sync::Arc;

use datafusion::common::config::SqlParserOptions;
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::sql::parser::{self, DFParser, DFParserBuilder};
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};
use datafusion_partitioned_connector::{
    is_create_table_with_connector, parse_create_table, sql_dialect,
};

use crate::advice::{advice, with_advice};
use crate::hint::{FoundHint, take_hints};
use crate::partition_parser::{is_partition_statement, parse_partition_statement};
use crate::redact::Secrets;
use crate::statement::{DataFusionStatement, Statement};

/// A statement of a text, or what is wrong with it.
#[derive(Debug)]
pub struct ParsedStatement {
    /// The line on which the statement begins, from 1.
    pub line: u64,
    /// The statement, or the syntax error, without the secrets of the text.
    pub statement: Result<Statement>,
    secrets: Arc<Secrets>,
}

impl ParsedStatement {
    /// The error of whatever was done with the statement, without the secrets of the text.
    pub fn hide_secrets(
        &self,
    ) -> impl Fn(DataFusionError) -> DataFusionError + Send + Sync + use<> {
        let secrets = Arc::clone(&self.secrets);
        move |error| secrets.hide(error)
    }
}

/// The statements of a text, separated by `;`. The first syntax error ends the list.
///
/// ```
/// use datafusion::common::config::SqlParserOptions;
/// use datafusion_partitioned_sql::{Statement, parse_statements};
///
/// let sql = "SELECT 1; SHOW PARTITIONS sales WHERE day > '2024-06-01'";
/// let statements = parse_statements(sql, &SqlParserOptions::default());
/// assert_eq!(statements.len(), 2);
/// assert!(matches!(statements[1].statement, Ok(Statement::Partition(_))));
/// ```
pub fn parse_statements(sql: &str, options: &SqlParserOptions) -> Vec<ParsedStatement> {
    let mut statements = vec![];
    let (parsed, secrets) = match sql_dialect(options) {
        Ok(dialect) => (
            parse_into(&mut statements, sql, dialect.as_ref(), options),
            Secrets::of(sql, dialect.as_ref()),
        ),
        Err(error) => (Err(error), Secrets::default()),
    };
    if let Err(error) = parsed {
        // The text as a whole is not SQL, so that there is no better place to point to.
        statements.push((1, Err(error)));
    }
    let secrets = Arc::new(secrets);
    let statements = statements
        .into_iter()
        .map(|(line, statement)| ParsedStatement {
            line,
            statement: statement.map_err(|error| secrets.hide(error)),
            secrets: Arc::clone(&secrets),
        });
    statements.collect()
}

/// Whether the text ends with a `;` that is not part of a literal or a comment.
pub fn is_complete(sql: &str, options: &SqlParserOptions) -> bool {
    let Ok(dialect) = sql_dialect(options) else {
        // Running the text is what reports the unknown dialect.
        return true;
    };
    let tokens = match Tokenizer::new(dialect.as_ref(), sql).tokenize() {
        Ok(tokens) => tokens,
        // A literal or a comment that goes on; whatever else is no SQL now will not become any.
        Err(error) => {
            let goes_on = ["Unterminated", "Unexpected EOF"];
            let goes_on = goes_on.iter().any(|text| error.message.starts_with(text));
            // So it says of an escape that does not exist, too.
            let is_escape = error.message.starts_with("Unterminated encoded");
            return !goes_on || (is_escape && sql.matches('\'').count().is_multiple_of(2));
        }
    };
    let last = tokens
        .iter()
        .rfind(|token| !matches!(token, Token::Whitespace(_)));
    last == Some(&Token::SemiColon)
}

fn parse_into(
    statements: &mut Vec<(u64, Result<Statement>)>,
    sql: &str,
    dialect: &dyn Dialect,
    options: &SqlParserOptions,
) -> Result<()> {
    let mut hints = vec![];
    let mut text = vec![];
    // What is no token is reported by the parser.
    let mut parser = match Tokenizer::new(dialect, sql).tokenize_with_location() {
        Ok(mut tokens) => {
            hints = take_hints(&mut tokens, dialect);
            text.clone_from(&tokens);
            build(tokens, dialect, options)?
        }
        Err(_) => build(sql, dialect, options)?,
    };
    loop {
        while parser.parser.consume_token(&Token::SemiColon) {}
        let first = parser.parser.peek_token();
        if first.token == Token::EOF {
            return Ok(());
        }
        let is_hinted = is_hinted(&text, &hints, first.span.start);
        let statement = match is_hinted && !can_be_hinted(&first.token) {
            true => {
                plan_err!("the hint OPTIONS (..) is for queries; leave it out of other statements")
            }
            false => parse_statement(&mut parser, dialect, options),
        };
        let statement = statement.and_then(|statement| {
            let next = parser.parser.peek_token();
            match next.token {
                Token::EOF => Ok(with_hints(statement, &mut hints, None)?),
                Token::SemiColon => Ok(with_hints(statement, &mut hints, Some(next.span.start))?),
                _ => Ok(parser.parser.expected("end of statement", next)?),
            }
        });
        let is_last = statement.is_err();
        let statement = advised(statement, statement_at(&text, first.span.start));
        statements.push((first.span.start.line, statement));
        if is_last {
            return Ok(());
        }
    }
}

/// Whether one of the hints is in the statement that begins here.
fn is_hinted(text: &[TokenWithSpan], hints: &[FoundHint], start: Location) -> bool {
    let ends = text.iter().filter(|token| token.token == Token::SemiColon);
    let end = ends.map(|end| end.span.start).find(|end| *end > start);
    hints
        .iter()
        .any(|hint| hint.start > start && end.is_none_or(|end| hint.start < end))
}

fn can_be_hinted(first: &Token) -> bool {
    let others = ["ALTER", "MSCK", "REFRESH", "SHOW", "TRUNCATE"];
    match first {
        Token::Word(word) => !others
            .iter()
            .any(|other| word.value.eq_ignore_ascii_case(other)),
        _ => true,
    }
}

/// The statement or the error, with the right spelling where the text has a usual mistake.
fn advised(statement: Result<Statement>, tokens: &[TokenWithSpan]) -> Result<Statement> {
    let advice = advice(tokens);
    match statement {
        Ok(Statement::DataFusion(mut statement)) => {
            statement.advice = advice;
            Ok(Statement::DataFusion(statement))
        }
        Ok(statement) => Ok(statement),
        Err(error) => match error.find_root() {
            DataFusionError::SQL(..) => Err(with_advice(error, advice)),
            // It has its own.
            _ => Err(error),
        },
    }
}

/// The tokens of the statement that begins here.
fn statement_at(tokens: &[TokenWithSpan], start: Location) -> &[TokenWithSpan] {
    let first = tokens.iter().position(|token| token.span.start >= start);
    let tokens = &tokens[first.unwrap_or(tokens.len())..];
    let end = tokens
        .iter()
        .position(|token| token.token == Token::SemiColon);
    &tokens[..end.unwrap_or(tokens.len())]
}

/// Gives a statement the hints in front of its end.
fn with_hints(
    statement: Statement,
    hints: &mut Vec<FoundHint>,
    end: Option<Location>,
) -> Result<Statement> {
    let own = hints.extract_if(.., |hint| end.is_none_or(|end| hint.start < end));
    let own = own.map(|hint| hint.hint).collect::<Result<Vec<_>>>()?;
    Ok(match statement {
        Statement::DataFusion(mut statement) => {
            statement.hints = own;
            Statement::DataFusion(statement)
        }
        other => other,
    })
}

fn build<'a, 'b>(
    input: impl Into<parser::ParserInput<'a>>,
    dialect: &'b dyn Dialect,
    options: &SqlParserOptions,
) -> Result<DFParser<'b>> {
    DFParserBuilder::new(input)
        .with_dialect(dialect)
        .with_recursion_limit(options.recursion_limit.get())
        .build()
}

fn parse_statement(
    parser: &mut DFParser<'_>,
    dialect: &dyn Dialect,
    options: &SqlParserOptions,
) -> Result<Statement> {
    if is_partition_statement(&parser.parser, 0) {
        let statement = parse_partition_statement(&mut parser.parser)?;
        return Ok(Statement::Partition(Box::new(statement)));
    }
    if let Some(statement) = explained_at(parser) {
        return explain(parser, statement);
    }
    if let Some(create) = create_before_query(parser) {
        let length = create.len();
        let mut create = build(create, dialect, options)?;
        let is_flinks = is_create_table_with_connector(&create.parser, 0);
        if is_flinks || is_create_external(&create) {
            let statement = parse_create(&mut create)?;
            let next = create.parser.peek_token();
            if next.token != Token::EOF {
                return create.parser.expected("AS", next)?;
            }
            for _ in 0..=length {
                parser.parser.next_token();
            }
            let query = parser::Statement::Statement(
                ast::Statement::Query(parser.parser.parse_query()?).into(),
            );
            let mut statement = DataFusionStatement::from(statement);
            statement.query = Some(query);
            return Ok(Statement::DataFusion(Box::new(statement)));
        }
    }
    Ok(passed(parse_create(parser)?))
}

/// A statement that may be a `CREATE TABLE` as Flink spells it.
fn parse_create(parser: &mut DFParser<'_>) -> Result<parser::Statement> {
    match is_create_table_with_connector(&parser.parser, 0) {
        true => parse_create_table(parser).map(parser::Statement::CreateExternalTable),
        false => parser.parse_statement(),
    }
}

fn is_create_external(parser: &DFParser<'_>) -> bool {
    let words = (0..).map(
        |index| match &parser.parser.peek_nth_token_ref(index).token {
            Token::Word(word) => word.keyword,
            _ => Keyword::NoKeyword,
        },
    );
    let mut words = words.skip_while(|keyword| {
        use Keyword::{CREATE, OR, REPLACE, TEMP, TEMPORARY, UNBOUNDED};
        matches!(
            keyword,
            CREATE | OR | REPLACE | TEMP | TEMPORARY | UNBOUNDED
        )
    });
    words.next() == Some(Keyword::EXTERNAL)
}

/// The tokens of `CREATE .. TABLE ..` in front of `AS` and a query.
fn create_before_query(parser: &DFParser<'_>) -> Option<Vec<TokenWithSpan>> {
    let token = |index| parser.parser.peek_nth_token_ref(index);
    let is_word =
        |index, keyword| matches!(&token(index).token, Token::Word(w) if w.keyword == keyword);
    if !is_word(0, Keyword::CREATE) {
        return None;
    }
    let begins_query = |index| match &token(index).token {
        Token::LParen => true,
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::SELECT | Keyword::WITH | Keyword::VALUES | Keyword::TABLE | Keyword::FROM
        ),
        _ => false,
    };
    let mut depth = 0_usize;
    let mut index = 1;
    loop {
        match &token(index).token {
            Token::EOF | Token::SemiColon => return None,
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ if depth == 0 && is_word(index, Keyword::AS) && begins_query(index + 1) => {
                return Some((0..index).map(|index| token(index).clone()).collect());
            }
            _ => {}
        }
        index += 1;
    }
}

/// A statement for DataFusion.
fn passed(statement: parser::Statement) -> Statement {
    Statement::DataFusion(Box::new(DataFusionStatement::from(statement)))
}

/// Where the statement begins whose plan is asked for, if DataFusion does not know it.
fn explained_at(parser: &DFParser<'_>) -> Option<usize> {
    let token = |index| &parser.parser.peek_nth_token_ref(index).token;
    let is_word = |index, keyword| matches!(token(index), Token::Word(w) if w.keyword == keyword);
    if !is_word(0, Keyword::EXPLAIN) {
        return None;
    }
    let mut index = 1;
    if *token(index) == Token::LParen {
        while !matches!(token(index), Token::RParen | Token::EOF) {
            index += 1;
        }
        index += 1;
    }
    loop {
        match token(index) {
            _ if is_partition_statement(&parser.parser, index)
                || is_create_table_with_connector(&parser.parser, index) =>
            {
                return Some(index);
            }
            Token::Word(w) if matches!(w.keyword, Keyword::ANALYZE | Keyword::VERBOSE) => {
                index += 1
            }
            Token::Word(w) if w.keyword == Keyword::FORMAT => index += 2,
            _ => return None,
        }
    }
}

/// `EXPLAIN ..` with the statement that begins at a token.
fn explain(parser: &mut DFParser<'_>, statement: usize) -> Result<Statement> {
    // DataFusion reads the options, in front of a statement of its own.
    let options = (0..statement).map(|_| parser.parser.next_token());
    let mut options: Vec<TokenWithSpan> = options.collect();
    options.extend([
        TokenWithSpan::wrap(Token::make_keyword("SELECT")),
        TokenWithSpan::wrap(Token::Number("1".to_owned(), false)),
    ]);
    let mut explain = DFParserBuilder::new(options).build()?;
    let parser::Statement::Explain(mut explain) = explain.parse_statement()? else {
        return Ok(parser
            .parser
            .expected("EXPLAIN", parser.parser.peek_token())?);
    };
    if is_create_table_with_connector(&parser.parser, 0) {
        let create = parser::Statement::CreateExternalTable(parse_create_table(parser)?);
        explain.statement = Box::new(create);
        return Ok(passed(parser::Statement::Explain(explain)));
    }
    let statement = parse_partition_statement(&mut parser.parser)?;
    Ok(Statement::Explain(explain.options, Box::new(statement)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_keep_their_lines_and_empty_ones_are_ignored() {
        let statements = parse("-- note; still a note\nSELECT ';';;\n\nSHOW\nTABLES");
        let lines: Vec<_> = statements.iter().map(|statement| statement.line).collect();
        assert_eq!(lines, [2, 4]);
        assert!(statements.iter().all(|parsed| parsed.statement.is_ok()));
        assert!(parse(" ; -- nothing").is_empty());
    }

    #[test]
    fn the_first_syntax_error_ends_the_list() {
        let statements = parse("SELECT 1;\nSELECT 2 SELECT 3;\nSELECT 4");
        assert_eq!(statements.len(), 2);
        assert_eq!(statements[1].line, 2);
        assert!(statements[1].statement.is_err());
        assert!(
            parse("SELECT 'open")
                .iter()
                .any(|parsed| parsed.statement.is_err())
        );
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
        assert!(!is_complete("SELECT /* ;\n"));
        assert!(is_complete("SELECT E'\\0';\n"));
    }

    #[test]
    fn plans_of_partition_statements_have_the_options_of_datafusion() {
        for (sql, analyze, verbose) in [
            ("EXPLAIN REFRESH TABLE t", false, false),
            ("EXPLAIN ANALYZE VERBOSE MSCK REPAIR TABLE t", true, true),
            ("EXPLAIN FORMAT TREE SHOW PARTITIONS t", false, false),
        ] {
            let parsed = parse(sql).remove(0).statement.unwrap();
            let Statement::Explain(options, _) = parsed else {
                panic!("{parsed:?}");
            };
            assert_eq!((options.analyze, options.verbose), (analyze, verbose));
        }
    }

    fn parse(sql: &str) -> Vec<ParsedStatement> {
        parse_statements(sql, &SqlParserOptions::default())
    }
}
