//! Star queries in the shape of TPC-DS over a part of its seven facts: the same rows with
//! dynamic filters, without them, and from flat files, and the partitions that the dates leave.
//!
//! `cargo bench --workspace --bench tpcds` does the same with the 99 queries, at any scale.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::error::Result;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_partitioned::prelude::*;
use datafusion_partitioned_test_utils::{Lake, TpcdsTable, compare_rows, scan_metric, sorted_rows};
use tokio::sync::OnceCell;

/// The tables of the queries with the rows of their sources. The orders of the catalog are those of the
/// first half of 1998, those of the stores and the web are spread over five years.
const TABLES: [(&str, u64, u64); 11] = [
    ("date_dim", 35_700, 36_600), // two and a half years from September 1997
    ("item", 1, 2_000),
    ("store", 1, 2),
    ("customer", 1, 1_000),
    ("store_sales", 1, 500),
    ("store_returns", 1, 500),
    ("catalog_sales", 1, 550),
    ("catalog_returns", 1, 550),
    ("web_sales", 1, 300),
    ("web_returns", 1, 300),
    ("inventory", 1, 26_000),
];

/// The smallest one.
const SCALE: f64 = 0.01;

/// Each fact with its date key and a measure.
const FACTS: [(&str, &str, &str); 7] = [
    ("store_sales", "ss_sold_date_sk", "ss_quantity"),
    ("store_returns", "sr_returned_date_sk", "sr_return_quantity"),
    ("catalog_sales", "cs_sold_date_sk", "cs_quantity"),
    (
        "catalog_returns",
        "cr_returned_date_sk",
        "cr_return_quantity",
    ),
    ("web_sales", "ws_sold_date_sk", "ws_quantity"),
    ("web_returns", "wr_returned_date_sk", "wr_return_quantity"),
    ("inventory", "inv_date_sk", "inv_quantity_on_hand"),
];

#[tokio::test]
async fn two_months_of_each_fact_list_and_open_their_days_only() -> Result<()> {
    let stars = Stars::new().await?;
    for (fact, key, measure) in FACTS {
        let months = "d_year = 1998 AND d_moy BETWEEN 5 AND 6";
        let days = format!(
            "SELECT count(DISTINCT {key}) FROM {fact} JOIN date_dim ON {key} = d_date_sk WHERE {months}"
        );
        let days = sorted_rows(&rows(&stars.flat, &days).await?).concat();
        assert_ne!(days, "0", "{fact}");
        let there = TpcdsTable::named(fact)?.partitions(lake().await?).await?;

        for query in [
            format!(
                "SELECT d_date, count(*), sum({measure}) FROM {fact} \
                 JOIN date_dim ON {key} = d_date_sk WHERE {months} GROUP BY d_date"
            ),
            format!(
                "SELECT {key}, {measure} FROM {fact} \
                 WHERE {key} IN (SELECT d_date_sk FROM date_dim WHERE {months})"
            ),
        ] {
            let plan = stars.check(&query).await?;
            for metric in ["partitions_listed", "partitions_scanned"] {
                let count = scan_metric(&plan, metric);
                assert_eq!(count.to_string(), days, "{metric} of {there}: {query}");
                assert!(count < there, "{metric}: {query}");
            }
        }
    }
    Ok(())
}

/// Each query with the largest part of the partitions that it may open, in percent.
#[tokio::test]
async fn queries_over_several_facts_have_the_rows_of_flat_files() -> Result<()> {
    let stars = Stars::new().await?;
    for (name, facts, percent, query) in QUERIES {
        let mut there = 0;
        for fact in *facts {
            there += TpcdsTable::named(fact)?.partitions(lake().await?).await?;
        }
        let plan = stars.check(query).await?;
        let opened = scan_metric(&plan, "partitions_scanned");
        assert!(
            opened * 100 <= there * percent,
            "{name}: {opened} of {there}"
        );
    }
    Ok(())
}

type StarQuery = (&'static str, &'static [&'static str], usize, &'static str);

const QUERIES: &[StarQuery] = &[
    (
        "sales of a month with their returns of two",
        &["store_sales", "store_returns"],
        60,
        "SELECT i_item_id, count(*) AS n, sum(ss_net_profit), sum(sr_net_loss)
         FROM store_sales
         JOIN date_dim sold ON ss_sold_date_sk = sold.d_date_sk
         JOIN store_returns ON ss_ticket_number = sr_ticket_number AND ss_item_sk = sr_item_sk
         JOIN date_dim returned ON sr_returned_date_sk = returned.d_date_sk
         JOIN item ON ss_item_sk = i_item_sk
         WHERE sold.d_year = 1998 AND sold.d_moy = 5
           AND returned.d_year = 1998 AND returned.d_moy BETWEEN 6 AND 8
         GROUP BY i_item_id",
    ),
    (
        "three channels on the days of a week",
        &["store_sales", "catalog_sales", "web_sales"],
        20,
        "SELECT channel, d_day_name, sum(price) AS price
         FROM (SELECT 'store' AS channel, ss_sold_date_sk AS day, ss_ext_sales_price AS price
               FROM store_sales
               UNION ALL SELECT 'catalog', cs_sold_date_sk, cs_ext_sales_price FROM catalog_sales
               UNION ALL SELECT 'web', ws_sold_date_sk, ws_ext_sales_price FROM web_sales) sales
         JOIN date_dim ON day = d_date_sk
         WHERE d_week_seq = (SELECT min(d_week_seq) FROM date_dim WHERE d_date = DATE '1998-05-12')
         GROUP BY ROLLUP (channel, d_day_name)",
    ),
    (
        "sales and the stock of their week",
        &["catalog_sales", "inventory"],
        60,
        "SELECT i_item_sk, sold.d_week_seq, count(*) AS n
         FROM catalog_sales
         JOIN date_dim sold ON cs_sold_date_sk = sold.d_date_sk
         JOIN inventory ON cs_item_sk = inv_item_sk
         JOIN date_dim counted ON inv_date_sk = counted.d_date_sk
         JOIN item ON i_item_sk = cs_item_sk
         WHERE sold.d_week_seq = counted.d_week_seq AND inv_quantity_on_hand < cs_quantity * 9
           AND sold.d_year = 1998 AND sold.d_moy = 6
         GROUP BY i_item_sk, sold.d_week_seq",
    ),
    (
        "customers of a store who came back by another way",
        &["store_sales", "web_sales", "catalog_sales"],
        60,
        "SELECT count(*) FROM customer
         WHERE EXISTS (SELECT 1 FROM store_sales, date_dim
                       WHERE c_customer_sk = ss_customer_sk AND ss_sold_date_sk = d_date_sk
                         AND d_year = 1998 AND d_moy = 5)
           AND (EXISTS (SELECT 1 FROM web_sales, date_dim
                        WHERE c_customer_sk = ws_bill_customer_sk AND ws_sold_date_sk = d_date_sk
                          AND d_year = 1998 AND d_moy = 6)
             OR EXISTS (SELECT 1 FROM catalog_sales, date_dim
                        WHERE c_customer_sk = cs_ship_customer_sk AND cs_sold_date_sk = d_date_sk
                          AND d_year = 1998 AND d_moy = 6))",
    ),
    (
        "customers of one channel and not of the other",
        &["store_sales", "web_sales"],
        40,
        "SELECT c_last_name, d_date FROM store_sales, date_dim, customer
         WHERE ss_sold_date_sk = d_date_sk AND ss_customer_sk = c_customer_sk
           AND d_year = 1998 AND d_moy = 6
         EXCEPT
         SELECT c_last_name, d_date FROM web_sales, date_dim, customer
         WHERE ws_sold_date_sk = d_date_sk AND ws_bill_customer_sk = c_customer_sk
           AND d_year = 1998 AND d_moy = 6",
    ),
    (
        "running sums of two channels, day by day",
        &["store_sales", "web_sales"],
        40,
        "WITH store_days AS (
             SELECT ss_item_sk AS item, d_date, sum(ss_sales_price) AS price
             FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk
             WHERE d_year = 1998 AND d_moy = 6 GROUP BY ss_item_sk, d_date),
         web_days AS (
             SELECT ws_item_sk AS item, d_date, sum(ws_sales_price) AS price
             FROM web_sales JOIN date_dim ON ws_sold_date_sk = d_date_sk
             WHERE d_year = 1998 AND d_moy = 6 GROUP BY ws_item_sk, d_date)
         SELECT coalesce(s.item, w.item) AS item, coalesce(s.d_date, w.d_date) AS d_date,
                sum(s.price) OVER (PARTITION BY s.item ORDER BY s.d_date) AS store,
                sum(w.price) OVER (PARTITION BY w.item ORDER BY w.d_date) AS web
         FROM store_days s FULL JOIN web_days w ON s.item = w.item AND s.d_date = w.d_date",
    ),
    (
        "one month next to another",
        &["store_sales", "store_sales"],
        70,
        "WITH months AS (
             SELECT ss_item_sk AS item, d_moy, sum(ss_quantity) AS quantity
             FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk
             WHERE d_year = 1998 GROUP BY ss_item_sk, d_moy)
         SELECT a.item, a.quantity, b.quantity FROM months a JOIN months b ON a.item = b.item
         WHERE a.d_moy = 5 AND b.d_moy = 6",
    ),
    (
        "days without returns",
        &["web_sales", "web_returns"],
        100,
        "SELECT d_date, count(*) AS n FROM web_sales JOIN date_dim ON ws_sold_date_sk = d_date_sk
         WHERE d_moy = 6
           AND NOT EXISTS (SELECT 1 FROM web_returns WHERE wr_returned_date_sk = ws_sold_date_sk)
         GROUP BY d_date",
    ),
    (
        "returns with a day and without",
        &["catalog_returns"],
        100,
        "SELECT d_moy, count(*) AS n, sum(cr_return_amount) AS amount
         FROM catalog_returns LEFT JOIN date_dim ON cr_returned_date_sk = d_date_sk GROUP BY d_moy",
    ),
    (
        "the dearest sales of a weekday",
        &["store_sales"],
        20,
        "SELECT ss_ticket_number, ss_item_sk, ss_net_paid, s_store_name
         FROM store_sales, date_dim, store
         WHERE ss_sold_date_sk = d_date_sk AND ss_store_sk = s_store_sk AND d_day_name = 'Monday'
         ORDER BY ss_net_paid DESC, ss_ticket_number, ss_item_sk LIMIT 25",
    ),
];

/// The sessions whose answers must agree.
struct Stars {
    flat: SessionContext,
    /// With dynamic filters, for one output partition and for several.
    filtered: [SessionContext; 2],
    unfiltered: SessionContext,
}

impl Stars {
    async fn new() -> Result<Self> {
        let flat = session(2);
        let filtered = [session(1), session(4)].map(SessionContext::with_partitioned);
        let unfiltered = session(2).with_partitioned();
        let lake = lake().await?;
        for ctx in [&flat, &filtered[0], &filtered[1], &unfiltered] {
            lake.register(ctx);
        }
        for (table, ..) in TABLES {
            let table = TpcdsTable::named(table)?;
            flat.sql(&table.flat_statement(lake)?).await?;
            let tree = table.tree_statement(lake, "OPTIONS ('connector' 'filesystem')")?;
            for ctx in [&filtered[0], &filtered[1], &unfiltered] {
                ctx.sql(&tree).await?;
            }
        }
        rows(
            &unfiltered,
            "SET partitioned.dynamic_filter.enabled = false",
        )
        .await?;
        Ok(Self {
            flat,
            filtered,
            unfiltered,
        })
    }

    /// Compares the answers, which must have a row, and returns the plan that ran with filters.
    async fn check(&self, query: &str) -> Result<Arc<dyn ExecutionPlan>> {
        let expected = rows(&self.flat, query).await?;
        assert!(!sorted_rows(&expected).is_empty(), "no rows: {query}");
        compare_rows(&rows(&self.unfiltered, query).await?, &expected)?;
        compare_rows(&rows(&self.filtered[0], query).await?, &expected)?;

        let ctx = &self.filtered[1];
        let plan = ctx.sql(query).await?.create_physical_plan().await?;
        let answer = collect(Arc::clone(&plan), ctx.task_ctx()).await?;
        compare_rows(&answer, &expected)?;
        Ok(plan)
    }
}

fn session(target_partitions: usize) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(target_partitions);
    SessionContext::new_with_config(config)
}

async fn rows(ctx: &SessionContext, query: &str) -> Result<Vec<RecordBatch>> {
    ctx.sql(query).await?.collect().await
}

/// The tables, generated once for all tests.
async fn lake() -> Result<&'static Lake> {
    static LAKE: OnceCell<Lake> = OnceCell::const_new();
    let generate = async || {
        let lake = Lake::in_memory()?;
        for (table, first, last) in TABLES {
            let part = TpcdsTable::named(table)?.with_source_rows(first, last);
            part.write(&lake, SCALE).await?;
        }
        Ok(lake)
    };
    LAKE.get_or_try_init(generate).await
}
