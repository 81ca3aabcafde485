//! The grammar of statements about partitions: Hive's and Spark's.

use datafusion::common::{Result, plan_err};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value};
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
    if is(0, "REFRESH") {
        return is(1, "TABLE") && is_name(2);
    }
    if is(0, "TRUNCATE") {
        // Of one table, without the clauses that others have.
        let first = if is(1, "TABLE") { 2 } else { 1 };
        let mut offset = first;
        while is_name(offset) && *token(offset + 1) == Token::Period {
            offset += 2;
        }
        let next = token(offset + 1);
        return is_name(offset)
            && (matches!(next, Token::EOF | Token::SemiColon) || is(offset + 1, "PARTITION"));
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
            let _ = parser.parse_keyword(Keyword::TABLE);
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
        conditions.push(parse_condition(parser)?);
    }
    let kind = PartitionStatementKind::ShowPartitions { conditions };
    Ok(PartitionStatement { table, kind })
}

fn parse_repair(parser: &mut Parser<'_>) -> Result<PartitionStatement> {
    // Without REPAIR, Hive only reports.
    parser.expect_keyword(Keyword::REPAIR)?;
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
        partitions.push(parse_partition_conditions(parser)?);
        let is_next = |parser: &Parser<'_>| matches!(&parser.peek_token_ref().token, Token::Word(word) if word.keyword == Keyword::PARTITION);
        // As for ADD.
        if !parser.consume_token(&Token::Comma) && !is_next(parser) {
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
        Token::Word(word) if word.keyword == Keyword::PARTITION => {
            parse_partition_conditions(parser)
        }
        _ => Ok(vec![]),
    }
}

/// `PARTITION (condition, ..)`. The column that is equal to NULL there is the one that is NULL, as in Hive.
fn parse_partition_conditions(parser: &mut Parser<'_>) -> Result<Vec<Expr>> {
    let conditions = parse_partition(parser)?.into_iter();
    let conditions = conditions.map(|condition| match condition {
        Expr::BinaryOp {
            left,
            op: BinaryOperator::Eq,
            right,
        } if is_null(&right) => Expr::IsNull(left),
        other => other,
    });
    Ok(conditions.collect())
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if value.value == Value::Null)
}

/// `PARTITION (condition, ..)`, as it is written.
fn parse_partition(parser: &mut Parser<'_>) -> Result<Vec<Expr>> {
    parser.expect_keyword(Keyword::PARTITION)?;
    parser.expect_token(&Token::LParen)?;
    let conditions = parser.parse_comma_separated(Parser::parse_expr)?;
    parser.expect_token(&Token::RParen)?;
    conditions.iter().try_for_each(check_condition)?;
    Ok(conditions)
}

fn parse_condition(parser: &mut Parser<'_>) -> Result<Expr> {
    let condition = parser.parse_expr()?;
    check_condition(&condition)?;
    Ok(condition)
}

/// How deep a condition may be: each operator of a chain is inside of the one behind it, and takes some of the stack.
const MAX_DEPTH: usize = 200;

/// Refuses what is deeper, and dates without quotes.
fn check_condition(condition: &Expr) -> Result<()> {
    let mut rest = vec![(condition, 1)];
    while let Some((expr, depth)) = rest.pop() {
        if depth > MAX_DEPTH {
            return plan_err!(
                "a condition has more than {MAX_DEPTH} operators one after the other; write a list, as in \
                 day IN ('2024-06-01', '2024-06-02')"
            );
        }
        match expr {
            Expr::BinaryOp { left, op, right } => {
                if let Some(date) = unquoted_date(left, op, right) {
                    return plan_err!(
                        "{date} is a difference of numbers; a date is written in quotes, '{date}'"
                    );
                }
                rest.extend([(left.as_ref(), depth + 1), (right.as_ref(), depth + 1)]);
            }
            Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => {
                rest.push((inner, depth + 1));
            }
            _ => {}
        }
    }
    Ok(())
}

/// `2024-06-01`, which is 2017.
fn unquoted_date(left: &Expr, op: &BinaryOperator, right: &Expr) -> Option<String> {
    let number = |expr: &Expr| match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => Some(number.to_string()),
            _ => None,
        },
        _ => None,
    };
    let Expr::BinaryOp {
        left,
        op: first,
        right: middle,
    } = left
    else {
        return None;
    };
    if *op != BinaryOperator::Minus || *first != BinaryOperator::Minus {
        return None;
    }
    let (year, month, day) = (number(left)?, number(middle)?, number(right)?);
    let is_date = year.len() == 4 && month.len() <= 2 && day.len() <= 2;
    is_date.then(|| format!("{year}-{month}-{day}"))
}
