//! Options that a query gives a table for itself: `FROM t /*+ OPTIONS('key' = 'value') */`, as in Flink.
//!
//! For a parser the hint is a comment. So the name in front of it becomes one under which the session finds a
//! table with these options, and which says so in plans: `"t /*+ OPTIONS('key') 1 */"`.

use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;

use datafusion::common::{Result, plan_err};
use datafusion::sql::parser::{self, CopyToSource};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Query, Visit, Visitor};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::{Keyword, RESERVED_FOR_TABLE_ALIAS};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{
    Location, Token, TokenWithSpan, Tokenizer, Whitespace, Word,
};
use datafusion_partitioned_connector::parse_option_list;

/// A table with options of its own.
#[derive(Clone)]
pub struct TableHint {
    /// The name of the table in the statement.
    pub(crate) table: ObjectName,
    /// The last part of the name that stands for it in plans.
    pub(crate) name: String,
    pub(crate) options: HashMap<String, String>,
}

/// Shows no values, which can be secret.
impl fmt::Debug for TableHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TableHint").field(&self.name).finish()
    }
}

/// A hint and its place in the text.
#[derive(Debug)]
pub(crate) struct FoundHint {
    pub(crate) start: Location,
    pub(crate) hint: Result<TableHint>,
}

/// Takes all hints with options out of a text, and puts the names for their tables into it.
pub(crate) fn take_hints(tokens: &mut Vec<TokenWithSpan>, dialect: &dyn Dialect) -> Vec<FoundHint> {
    let mut found: Vec<FoundHint> = vec![];
    let mut index = 0;
    while index < tokens.len() {
        if let Some(text) = hint_text(&tokens[index].token) {
            let start = tokens[index].span.start;
            let hint = take_hint(tokens, index, &text, dialect, found.len());
            found.push(FoundHint { start, hint });
        }
        index += 1;
    }
    found
}

/// The text of a comment that gives a table options, without its `+`.
fn hint_text(token: &Token) -> Option<String> {
    let Token::Whitespace(Whitespace::MultiLineComment(text)) = token else {
        return None;
    };
    // Hints for others are comments; one that is meant for this project must not become one.
    let hint = text.strip_prefix('+')?.trim_start();
    let is_meant = hint.to_ascii_uppercase().contains("OPTION");
    is_meant.then(|| hint.to_owned())
}

fn take_hint(
    tokens: &mut Vec<TokenWithSpan>,
    index: usize,
    text: &str,
    dialect: &dyn Dialect,
    number: usize,
) -> Result<TableHint> {
    let options = parse_options(text, dialect)?;
    let name = table_name(tokens, index);
    let Some((table, last, before)) = name else {
        return plan_err!(
            "the hint OPTIONS (..) stands behind the name of a table and in front of its alias, as in \
             FROM t /*+ OPTIONS ('key' = 'value') */ AS a"
        );
    };
    // Values can be secret. The number tells hints with the same keys apart.
    let mut keys: Vec<String> = options.iter().map(|(key, _)| format!("'{key}'")).collect();
    keys.sort_unstable();
    if let Some(pair) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
        return plan_err!("the hint OPTIONS (..) has {} twice; remove one", pair[0]);
    }
    let alias = table_alias(&table);
    let name = format!(
        "{} /*+ OPTIONS({}) {} */",
        alias.value,
        keys.join(", "),
        number + 1
    );
    tokens[last].token = Token::Word(Word {
        value: name.clone(),
        quote_style: Some('"'),
        keyword: Keyword::NoKeyword,
    });
    let is_written = matches!(&before, Token::Word(word) if word.keyword == Keyword::INTO);
    let replacement = match is_written || has_alias(&tokens[index + 1..]) {
        true => vec![],
        false => vec![
            Token::Whitespace(Whitespace::Space),
            Token::make_keyword("AS"),
            Token::Whitespace(Whitespace::Space),
            Token::make_word(&alias.value, alias.quote_style),
        ],
    };
    let span = tokens[index].span;
    let replacement = replacement
        .into_iter()
        .map(|token| TokenWithSpan { token, span });
    tokens.splice(index..=index, replacement);
    Ok(TableHint {
        table,
        name,
        options: options.into_iter().collect(),
    })
}

/// Refuses hints behind the names of queries in `WITH`, which are no tables.
pub(crate) fn refuse_hinted_queries(
    statement: &parser::Statement,
    hints: &[TableHint],
) -> Result<()> {
    let mut names = QueryNames(vec![]);
    match statement {
        parser::Statement::Statement(statement) => {
            let _ = statement.visit(&mut names);
        }
        parser::Statement::Explain(explain) => {
            return refuse_hinted_queries(&explain.statement, hints);
        }
        parser::Statement::CopyTo(copy) => {
            if let CopyToSource::Query(query) = &copy.source {
                let _ = query.visit(&mut names);
            }
        }
        _ => {}
    }
    let is_query = |hint: &&TableHint| match &hint.table.0[..] {
        [part] => part.as_ident().is_some_and(|table| {
            let mut names = names.0.iter();
            names.any(|name| name.value.eq_ignore_ascii_case(&table.value))
        }),
        _ => false,
    };
    match hints.iter().find(is_query) {
        None => Ok(()),
        Some(hint) => plan_err!(
            "'{}' is a query in WITH, and OPTIONS (..) is for tables; put the hint behind the table in that query",
            hint.table
        ),
    }
}

/// The names of the queries in all `WITH` of a statement.
struct QueryNames(Vec<Ident>);

impl Visitor for QueryNames {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let with = query.with.iter().flat_map(|with| &with.cte_tables);
        self.0.extend(with.map(|table| table.alias.name.clone()));
        ControlFlow::Continue(())
    }
}

/// `OPTIONS ('key' = 'value', ..)`.
fn parse_options(text: &str, dialect: &dyn Dialect) -> Result<Vec<(String, String)>> {
    let form = "a hint is written /*+ OPTIONS('key' = 'value', 'key' = 'value') */";
    options_of(text, dialect).map_err(|error| error.context(form))
}

fn options_of(text: &str, dialect: &dyn Dialect) -> Result<Vec<(String, String)>> {
    // `Parser::try_with_sql` would log the text, with its secrets.
    let tokens = Tokenizer::new(dialect, text).tokenize_with_location();
    let tokens = tokens.map_err(ParserError::from)?;
    let mut parser = Parser::new(dialect).with_tokens_with_locations(tokens);
    parser.expect_keyword(Keyword::OPTIONS)?;
    let options = parse_option_list(&mut parser)?;
    parser.expect_token(&Token::EOF)?;
    Ok(options)
}

/// The table in front of a token, the place of the last part of its name, and the token in front of that.
fn table_name(tokens: &[TokenWithSpan], index: usize) -> Option<(ObjectName, usize, Token)> {
    let is_space = |index: &usize| !matches!(tokens[*index].token, Token::Whitespace(_));
    let mut before = (0..index).rev().filter(is_space);
    let last = before.next()?;
    let mut parts = vec![];
    let mut at = last;
    loop {
        let Token::Word(word) = &tokens[at].token else {
            return None;
        };
        parts.push(word.to_ident(tokens[at].span));
        let front = before.next()?;
        match &tokens[front].token {
            Token::Period => at = before.next()?,
            Token::Comma | Token::LParen => break parts_of(parts, last, &tokens[front]),
            Token::Word(word) if is_before_table(word.keyword) => {
                break parts_of(parts, last, &tokens[front]);
            }
            _ => return None,
        }
    }
}

fn parts_of(
    mut parts: Vec<Ident>,
    last: usize,
    front: &TokenWithSpan,
) -> Option<(ObjectName, usize, Token)> {
    parts.reverse();
    Some((ObjectName::from(parts), last, front.token.clone()))
}

fn is_before_table(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::FROM | Keyword::JOIN | Keyword::INTO | Keyword::TABLE | Keyword::ONLY
    )
}

/// The name under which the other parts of a statement know the table.
fn table_alias(table: &ObjectName) -> Ident {
    let last = table.0.last().and_then(|part| part.as_ident());
    last.cloned().unwrap_or_else(|| Ident::new("t"))
}

/// Whether an alias follows.
fn has_alias(tokens: &[TokenWithSpan]) -> bool {
    let next = tokens
        .iter()
        .find(|token| !matches!(token.token, Token::Whitespace(_)));
    match next.map(|next| &next.token) {
        Some(Token::Word(word)) => {
            word.keyword == Keyword::AS || !RESERVED_FOR_TABLE_ALIAS.contains(&word.keyword)
        }
        _ => false,
    }
}
