//! The queries of `queries.rs` in SQL.

use std::cell::Cell;

use super::queries::{
    Condition, Join, JoinKey, JoinKind, KeyExpr, Output, Predicate, Query, Relation,
};
use super::schema::{COLUMNS, Dataset, KeyType, TABLES};

/// What the text of a query depends on.
#[derive(Clone, Copy)]
struct Data<'a> {
    dataset: &'a Dataset,
    /// Counts the sides of joins whose columns have names of their own.
    renamed: Option<&'a Cell<u32>>,
}

/// A relation in scope: its alias, and what all of its column names have in front.
#[derive(Clone)]
struct Scope {
    alias: &'static str,
    prefix: String,
}

impl Scope {
    fn new(alias: &'static str) -> Self {
        Self {
            alias,
            prefix: String::new(),
        }
    }

    fn name(&self, column: &str) -> String {
        format!("{}.{}{column}", self.alias, self.prefix)
    }
}

impl Data<'_> {
    /// Column numbers are taken modulo the number of columns.
    fn index(self, column: u8) -> usize {
        usize::from(column) % self.dataset.types.len()
    }

    fn key_type(self, column: u8) -> KeyType {
        self.dataset.types[self.index(column)]
    }

    fn literal(self, column: u8, value: u8) -> String {
        self.dataset.literal(self.index(column), value)
    }

    fn key(self, scope: &Scope, column: u8) -> String {
        scope.name(&format!("q{}", self.index(column)))
    }

    fn keys(self) -> impl Iterator<Item = u8> {
        0..self.dataset.types.len() as u8
    }

    /// The names of the columns of every relation.
    fn columns(self) -> Vec<String> {
        let keys = self.keys().map(|key| format!("q{key}"));
        COLUMNS.map(str::to_owned).into_iter().chain(keys).collect()
    }

    /// `of` as one side of a join, in parentheses and with its alias.
    fn side(self, of: &str, alias: &'static str) -> (String, Scope) {
        let Some(renamed) = self.renamed else {
            return (format!("({of}) {alias}"), Scope::new(alias));
        };
        renamed.set(renamed.get() + 1);
        let prefix = format!("{alias}{}_", renamed.get());
        let columns = self.columns().into_iter();
        let columns: Vec<_> = columns.map(|c| format!("{c} AS {prefix}{c}")).collect();
        let sql = format!("(SELECT {} FROM ({of}) t) {alias}", columns.join(", "));
        (sql, Scope { alias, prefix })
    }
}

impl Query {
    /// The query over the tables of `dataset`.
    pub(super) fn sql(&self, dataset: &Dataset) -> String {
        let renamed = Cell::new(0);
        let data = Data {
            dataset,
            renamed: self.renamed.then_some(&renamed),
        };
        let t = Scope::new("t");
        let keys = data
            .keys()
            .map(|key| data.key(&t, key))
            .collect::<Vec<_>>()
            .join(", ");
        let select = match self.output {
            Output::Rows => "*".to_owned(),
            Output::Keys | Output::Limit => keys.clone(),
            Output::Count => "count(*)".to_owned(),
            Output::Groups => format!("{keys}, count(*), min(t.id), max(t.s)"),
            Output::Extremes => {
                "min(t.q0), max(t.q0), count(t.q0), count(*), count(DISTINCT t.x)".to_owned()
            }
        };
        let filter = where_clause(self.filter.iter().map(|p| p.sql(&t, data)));
        let from = format!("FROM ({}) t{filter}", self.from.sql(data));
        match self.output {
            Output::Groups => format!("SELECT {select} {from} GROUP BY {keys}"),
            // Which rows a limit keeps is open, but not how many.
            Output::Limit => format!("SELECT count(*) FROM (SELECT {select} {from} LIMIT 5) t"),
            _ => format!("SELECT {select} {from}"),
        }
    }
}

impl Relation {
    fn sql(&self, data: Data<'_>) -> String {
        let all = data.columns().join(", ");
        match self {
            Self::Table(table) => {
                let table = TABLES[*table];
                let own = COLUMNS.map(|column| format!("{table}_{column} AS {column}"));
                let keys = data.keys().map(|key| format!("{table}_p{key} AS q{key}"));
                let columns: Vec<_> = own.into_iter().chain(keys).collect();
                format!("SELECT {} FROM {table}", columns.join(", "))
            }
            Self::Filter(of, predicate) => {
                format!(
                    "SELECT * FROM ({}) t WHERE {}",
                    of.sql(data),
                    predicate.sql(&Scope::new("t"), data)
                )
            }
            Self::Project(of, [first, others]) => {
                let keys: String = data
                    .keys()
                    .map(|key| {
                        let expr = if key == 0 { first } else { others };
                        format!(
                            ", {} AS q{key}",
                            expr.sql(&data.key(&Scope::new("t"), key), data, key)
                        )
                    })
                    .collect();
                format!("SELECT id, x, s{keys} FROM ({}) t", of.sql(data))
            }
            Self::Union(a, b) => {
                format!(
                    "SELECT * FROM ({}) a UNION ALL ({})",
                    a.sql(data),
                    b.sql(data)
                )
            }
            Self::SetOperation(operator, a, b) => {
                let none = "CAST(NULL AS BIGINT) AS id, CAST(NULL AS INT) AS x, \
                            CAST(NULL AS VARCHAR) AS s";
                let keys: String = data.keys().map(|key| format!(", t.q{key}")).collect();
                let [a, b] =
                    [a, b].map(|of| format!("SELECT {none}{keys} FROM ({}) t", of.sql(data)));
                format!("{a} {operator} {b}")
            }
            Self::Distinct(of) => format!("SELECT DISTINCT {all} FROM ({}) t", of.sql(data)),
            Self::Top(of, rows) => {
                format!(
                    "SELECT * FROM ({}) t ORDER BY {all} LIMIT {rows}",
                    of.sql(data)
                )
            }
            Self::Recursive(first, next, key) => {
                let (next, r) = data.side(&next.sql(data), "r");
                let keys: String = data
                    .keys()
                    .map(|k| format!(", {}", data.key(&r, k)))
                    .collect();
                let (left, right) = (data.key(&Scope::new("l"), *key), data.key(&r, *key));
                format!(
                    "WITH RECURSIVE w AS ({} UNION ALL \
                     SELECT {}, CAST(l.x + 1 AS INT) AS x, {}{keys} \
                     FROM w l JOIN {next} ON {left} = {right} AND l.x < 2) SELECT * FROM w",
                    first.sql(data),
                    r.name("id"),
                    r.name("s"),
                )
            }
            Self::Join(join) => join.sql(data),
        }
    }
}

impl Join {
    fn sql(&self, data: Data<'_>) -> String {
        let (left, l) = data.side(&self.left.sql(data), "l");
        let (right, r) = data.side(&self.right.sql(data), "r");
        let sides = [&l, &r];
        let conjuncts = |keys: &[JoinKey]| {
            let keys = keys.iter().map(|key| key.sql(sides, data));
            let conjuncts = keys.chain(self.condition.iter().map(|c| c.sql(sides, data)));
            conjuncts.collect::<Vec<_>>()
        };
        let on = conjuncts(&self.keys).join(" AND ");
        let (keyword, visible): (_, &[&Scope]) = match self.kind {
            JoinKind::Inner => ("INNER", &sides),
            JoinKind::Left => ("LEFT", &sides),
            JoinKind::Right => ("RIGHT", &sides),
            JoinKind::Full => ("FULL", &sides),
            JoinKind::LeftSemi => ("LEFT SEMI", &[&l]),
            JoinKind::LeftAnti => ("LEFT ANTI", &[&l]),
            JoinKind::RightSemi => ("RIGHT SEMI", &[&r]),
            JoinKind::RightAnti => ("RIGHT ANTI", &[&r]),
            JoinKind::Comma => (",", &sides),
            _ => ("WHERE", &[&l]),
        };
        let columns: Vec<_> = data
            .columns()
            .into_iter()
            .zip([0, 0, 0, 1, 2, 3])
            .map(|(column, choice)| {
                let side = visible[usize::from(self.from_right[choice]) % visible.len()];
                format!("{} AS {column}", side.name(&column))
            })
            .collect();
        let select = format!("SELECT {} FROM {left}", columns.join(", "));
        let filter = self.filter.iter().map(|p| p.sql(visible[0], data));
        if keyword == "," {
            let all = where_clause(conjuncts(&self.keys).into_iter().chain(filter));
            return format!("{select}, {right}{all}");
        }
        if keyword != "WHERE" {
            return format!(
                "{select} {keyword} JOIN {right} ON {on}{}",
                where_clause(filter)
            );
        }

        let exists = format!("EXISTS (SELECT 1 FROM {right} WHERE {on})");
        let [outer, inner] = self.keys[0].sides(sides, data);
        // NOT IN is not planned with further keys.
        let further_keys = if self.kind == JoinKind::NotIn {
            &[]
        } else {
            &self.keys[1..]
        };
        let correlation = where_clause(conjuncts(further_keys));
        let is_in = format!("{outer} IN (SELECT {inner} FROM {right}{correlation})");
        let alternative = filter
            .chain([format!("{} = 2", l.name("x"))])
            .next()
            .unwrap_or_default();
        let subquery = match self.kind {
            JoinKind::In => is_in,
            JoinKind::NotIn => format!("NOT {is_in}"),
            JoinKind::InOr => format!("({is_in} OR {alternative})"),
            JoinKind::NotInOr => format!("(NOT {is_in} OR {alternative})"),
            JoinKind::ExistsOr => format!("({exists} OR {alternative})"),
            JoinKind::NotExists => format!("NOT {exists}"),
            _ => exists,
        };
        format!("{select} WHERE {subquery}")
    }
}

/// The conjunction with `WHERE` in front, if there is anything to it.
fn where_clause(conjuncts: impl IntoIterator<Item = String>) -> String {
    let conjuncts: Vec<_> = conjuncts.into_iter().collect();
    if conjuncts.is_empty() {
        return String::new();
    }
    format!(" WHERE {}", conjuncts.join(" AND "))
}

impl JoinKey {
    /// The two sides, as text where their types have nothing in common.
    fn sides(&self, scopes: [&Scope; 2], data: Data<'_>) -> [String; 2] {
        let [left, right] = self.columns.map(|column| data.key_type(column));
        let as_text = !left.compares_with(right)
            || self.exprs.iter().any(|expr| matches!(expr, KeyExpr::Text));
        [0, 1].map(|side| {
            let column = self.columns[side];
            let name = data.key(scopes[side], column);
            let expr = self.exprs[side].sql(&name, data, column);
            if as_text {
                format!("CAST({expr} AS VARCHAR)")
            } else {
                expr
            }
        })
    }

    fn sql(&self, scopes: [&Scope; 2], data: Data<'_>) -> String {
        let [left, right] = self.sides(scopes, data);
        let operator = if self.null_equals_null {
            "IS NOT DISTINCT FROM"
        } else {
            "="
        };
        format!("({left} {operator} {right})")
    }
}

impl Condition {
    fn sql(&self, [l, r]: [&Scope; 2], data: Data<'_>) -> String {
        match self {
            Self::SmallerX => format!("{} < {}", l.name("x"), r.name("x")),
            Self::OtherId => format!("{} <> {}", l.name("id"), r.name("id")),
            Self::EitherKey(column) => {
                let [left, right] = [l, r].map(|scope| data.key(scope, *column));
                format!("({left} = {right} OR {} = {})", l.name("x"), r.name("x"))
            }
            Self::Left(predicate) => predicate.sql(l, data),
            Self::Right(predicate) => predicate.sql(r, data),
        }
    }
}

impl KeyExpr {
    /// The expression over `of`, which is called so or descends from key `column`.
    fn sql(self, of: &str, data: Data<'_>, column: u8) -> String {
        let literal = |value| data.literal(column, value);
        match (self, data.key_type(column)) {
            (Self::Bare, _) => of.to_owned(),
            (Self::Widen, KeyType::Int) => format!("CAST({of} AS BIGINT)"),
            (Self::Widen, KeyType::BigInt) => format!("CAST({of} AS DECIMAL(24, 2))"),
            (Self::Widen, KeyType::Decimal) => format!("CAST({of} AS DECIMAL(24, 3))"),
            (Self::Widen, KeyType::Date | KeyType::Timestamp) => format!("CAST({of} AS TIMESTAMP)"),
            (Self::Widen, KeyType::Text) => format!("CAST({of} AS VARCHAR)"),
            (Self::Widen, KeyType::Double) => format!("CAST({of} AS DOUBLE)"),
            (Self::Widen, KeyType::Boolean) => format!("({of} = TRUE)"),
            (Self::Shift, KeyType::Text) => format!("substr({of}, 1, 1)"),
            (Self::Shift, KeyType::Date | KeyType::Timestamp) => {
                format!("({of} + INTERVAL '1' DAY)")
            }
            (Self::Shift, KeyType::Boolean) => format!("(NOT {of})"),
            (Self::Shift, _) => format!("({of} + 1)"),
            (Self::Fold, KeyType::Text) => format!("upper({of})"),
            (Self::Fold, KeyType::Date | KeyType::Timestamp) => {
                format!("date_trunc('month', {of})")
            }
            (Self::Fold, KeyType::Boolean) => format!("({of} IS TRUE)"),
            (Self::Fold, _) => format!("abs({of})"),
            (Self::Coalesce(v), _) => format!("coalesce({of}, {})", literal(v)),
            (Self::NullIf(v), _) => format!("nullif({of}, {})", literal(v)),
            (Self::Case(v), _) => format!("CASE WHEN {of} = {} THEN {of} END", literal(v)),
            (Self::Text, _) => format!("CAST({of} AS VARCHAR)"),
        }
    }
}

impl Predicate {
    /// The predicate over a relation, in parentheses where that matters.
    fn sql(&self, scope: &Scope, data: Data<'_>) -> String {
        let name = |column: &u8| data.key(scope, *column);
        let text = |column: &u8| format!("CAST({} AS VARCHAR)", data.key(scope, *column));
        let literal = |column: &u8, value: &u8| data.literal(*column, *value);
        let negation = |not: &bool| if *not { "NOT " } else { "" };
        match self {
            Self::Compare(c, operator, v) => format!("{} {operator} {}", name(c), literal(c, v)),
            Self::In {
                column,
                values,
                null,
                not,
            } => {
                let null = null.then(|| "NULL".to_owned());
                let values = values.iter().map(|v| literal(column, v)).chain(null);
                let values = values.collect::<Vec<_>>().join(", ");
                format!("{} {}IN ({values})", name(column), negation(not))
            }
            Self::Between {
                column,
                low,
                high,
                not,
            } => {
                let (low, high) = (literal(column, low), literal(column, high));
                format!(
                    "({} {}BETWEEN {low} AND {high})",
                    name(column),
                    negation(not)
                )
            }
            Self::Like(c, pattern) => format!("{} LIKE '{pattern}'", text(c)),
            Self::Is(c, what) => format!("{} IS {what}", name(c)),
            Self::IsDistinct(c, what, v) => {
                format!("({} IS {what} FROM {})", name(c), literal(c, v))
            }
            Self::Expr(c, expr, operator, v) => {
                format!(
                    "{} {operator} {}",
                    expr.sql(&name(c), data, *c),
                    literal(c, v)
                )
            }
            Self::Columns(a, b) if data.key_type(*a).compares_with(data.key_type(*b)) => {
                format!("{} <= {}", name(a), name(b))
            }
            Self::Columns(a, b) => format!("{} > {}", text(a), text(b)),
            Self::SubqueryMax(c) => {
                format!("{} = (SELECT max(d_p{}) FROM d)", name(c), data.index(*c))
            }
            Self::Divide(c) if data.key_type(*c) == KeyType::Int => format!("10 / {} > 2", name(c)),
            Self::Divide(c) => format!("length({}) < 4", text(c)),
            Self::Volatile => format!("random() + {} < 2", scope.name("x")),
            Self::File(predicate) => scope.name(predicate),
            Self::Mixed(c, v) => format!(
                "CASE WHEN {0} = {1} THEN {2} > 1 ELSE {0} IS NULL END",
                name(c),
                literal(c, v),
                scope.name("x")
            ),
            Self::And(a, b) => format!("({} AND {})", a.sql(scope, data), b.sql(scope, data)),
            Self::Or(a, b) => format!("({} OR {})", a.sql(scope, data), b.sql(scope, data)),
            Self::Not(of) => format!("NOT ({})", of.sql(scope, data)),
        }
    }
}
