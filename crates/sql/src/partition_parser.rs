//! The grammar of statements about partitions: Hive's and Spark's.

use datafusion::common::{Result, plan_err};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::statement::{NewPartition, PartitionStatement, PartitionStatementKind};

/// Whether a statement about partitions begins at a token. All others are DataFusion's.
pub(crate) fn is_partition_statement(parser: &Parser<'_>, index: usize) -> bool {
    let token = |offset| &parser.peek_nth_token_ref(index + offset).token;
    let is = |offset, text: &str| match token(offset) {
        Token::Word(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text),
        _ => false,
    };
    let is_name = |offset| matches!(token(offset), Token::Word(_));
    if is(0, "SHOW") {
        return (is(1, "PARTITIONS") && is_name(2))
            || (is(1, "CREATE") && is(2, "TABLE") && is_name(3));
    }
    if is(0, "MSCK") {
        return true;
    }
    if is(0, "REFRESH") || is(0, "TRUNCATE") {
        return is(1, "TABLE") && is_name(2);
    }
    if !(is(0, "ALTER") && is(1, "TABLE")) {
        return false;
    }
    // The name of the table and what follows.
    let mut offset = 2;
    if is(offset, "IF") && is(offset + 1, "EXISTS") {
        offset += 2;
    }
    while is_name(offset) && *token(offset + 1) == Token::Period {
        offset += 2;
    }
    offset += 1;
    let kind = offset;
    if !(is(kind, "ADD") || is(kind, "DROP")) {
        return false;
    }
    offset += 1;
    if is(offset, "IF") {
        offset += if is(offset + 1, "NOT") { 3 } else { 2 };
    }
    is(offset, "PARTITION") || is(offset, "PARTITIONS")
}

/// Parses the statement that begins here, as [`is_partition_statement`] has found.
pub(crate) fn parse_partition_statement(parser: &mut Parser<'_>) -> Result<PartitionStatement> {
    let first = parser.next_token();
    match &first.token {
        Token::Word(word) if word.keyword == Keyword::SHOW => parse_show(parser),
        Token::Word(word) if word.keyword == Keyword::MSCK => parse_repair(parser),
        Token::Word(word) if word.keyword == Keyword::ALTER => parse_alter(parser),
        Token::Word(word) if word.keyword == Keyword::TRUNCATE => {
            parser.expect_keyword(Keyword::TABLE)?;
            let table = parser.parse_object_name(false)?;
            let conditions = parse_optional_partition(parser)?;
            let kind = PartitionStatementKind::Truncate { conditions };
            Ok(PartitionStatement { table, kind })
        }
        _ => {
            parser.expect_keyword(Keyword::TABLE)?;
            let table = parser.parse_object_name(false)?;
            let conditions = parse_optional_partition(parser)?;
            let kind = PartitionStatementKind::Refresh { conditions };
            Ok(PartitionStatement { table, kind })
        }
    }
}

fn parse_show(parser: &mut Parser<'_>) -> Result<PartitionStatement> {
    if parser.parse_keyword(Keyword::CREATE) {
        parser.expect_keyword(Keyword::TABLE)?;
        let table = parser.parse_object_name(false)?;
        let kind = PartitionStatementKind::ShowCreateTable;
        return Ok(PartitionStatement { table, kind });
    }
    parser.next_token(); // PARTITIONS
    let _ = parser.parse_one_of_keywords(&[Keyword::FROM, Keyword::IN]);
    let table = parser.parse_object_name(false)?;
    let mut conditions = parse_optional_partition(parser)?;
    if parser.parse_keyword(Keyword::WHERE) {
        conditions.push(parser.parse_expr()?);
    }
    let kind = PartitionStatementKind::ShowPartitions { conditions };
    Ok(PartitionStatement { table, kind })
}

fn parse_repair(parser: &mut Parser<'_>) -> Result<PartitionStatement> {
    let _ = parser.parse_keyword(Keyword::REPAIR);
    parser.expect_keyword(Keyword::TABLE)?;
    let table = parser.parse_object_name(false)?;
    let kinds = [Keyword::ADD, Keyword::DROP, Keyword::SYNC];
    let kind = parser.parse_one_of_keywords(&kinds);
    if kind.is_some() {
        parser.expect_keyword(Keyword::PARTITIONS)?;
    }
    let (add, drop) = match kind {
        None | Some(Keyword::ADD) => (true, false),
        Some(Keyword::DROP) => (false, true),
        Some(_) => (true, true),
    };
    let kind = PartitionStatementKind::Repair { add, drop };
    Ok(PartitionStatement { table, kind })
}

fn is_end(parser: &Parser<'_>) -> bool {
    let next = &parser.peek_token_ref().token;
    matches!(next, Token::EOF | Token::SemiColon)
}

fn parse_alter(parser: &mut Parser<'_>) -> Result<PartitionStatement> {
    parser.expect_keyword(Keyword::TABLE)?;
    if parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]) {
        return plan_err!(
            "IF EXISTS stands behind DROP, as in ALTER TABLE t DROP IF EXISTS PARTITION (day = 1)"
        );
    }
    let table = parser.parse_object_name(false)?;
    let kind = match parser.parse_keyword(Keyword::ADD) {
        true => parse_add(parser)?,
        false => {
            parser.expect_keyword(Keyword::DROP)?;
            parse_drop(parser)?
        }
    };
    Ok(PartitionStatement { table, kind })
}

fn parse_add(parser: &mut Parser<'_>) -> Result<PartitionStatementKind> {
    let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let mut partitions = vec![];
    loop {
        let values = parse_partition(parser)?;
        for value in &values {
            if !matches!(
                value,
                Expr::BinaryOp {
                    op: BinaryOperator::Eq,
                    ..
                }
            ) {
                return plan_err!(
                    "a new partition needs a value for each partition column, as in PARTITION (day = \
                     '2024-06-01'), but there is '{value}'"
                );
            }
        }
        let location = match parser.parse_keyword(Keyword::LOCATION) {
            true => Some(parser.parse_literal_string()?),
            false => None,
        };
        partitions.push(NewPartition { values, location });
        // Hive puts nothing between them, others a comma.
        let _ = parser.consume_token(&Token::Comma);
        if is_end(parser) {
            return Ok(PartitionStatementKind::Add {
                if_not_exists,
                partitions,
            });
        }
    }
}

fn parse_drop(parser: &mut Parser<'_>) -> Result<PartitionStatementKind> {
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let mut partitions = vec![];
    loop {
        partitions.push(parse_partition(parser)?);
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    let purge = parser.parse_keyword(Keyword::PURGE);
    Ok(PartitionStatementKind::Drop {
        if_exists,
        partitions,
        purge,
    })
}

fn parse_optional_partition(parser: &mut Parser<'_>) -> Result<Vec<Expr>> {
    let next = &parser.peek_token_ref().token;
    match next {
        Token::Word(word) if word.keyword == Keyword::PARTITION => parse_partition(parser),
        _ => Ok(vec![]),
    }
}

/// `PARTITION (condition, ..)`.
fn parse_partition(parser: &mut Parser<'_>) -> Result<Vec<Expr>> {
    parser.expect_keyword(Keyword::PARTITION)?;
    parser.expect_token(&Token::LParen)?;
    let conditions = parser.parse_comma_separated(Parser::parse_expr)?;
    parser.expect_token(&Token::RParen)?;
    Ok(conditions)
}
