//! Layouts, several locations, types of undeclared columns, and the table options about partitions.

use datafusion_partitioned_test_utils::scan_metric;

use crate::common::Fixture;

/// Creates the table `t` at `t/` with these columns, clauses and options.
async fn create(fixture: &Fixture, columns: &str, by: &str, options: &str) -> Result<(), String> {
    let location = fixture.lake.location("t/");
    let sql = format!(
        "CREATE OR REPLACE EXTERNAL TABLE t {columns} STORED AS CSV PARTITIONED BY ({by}) LOCATION '{location}' \
         OPTIONS ('connector' 'filesystem'{options})"
    );
    fixture.run(&sql).await.map_err(|error| error.to_string())?;
    fixture.requests.clear();
    Ok(())
}

async fn put_all(fixture: &Fixture, keys: &[(&str, i64)]) {
    for (key, id) in keys {
        fixture.put_ids(key, &[*id]).await;
    }
}

#[tokio::test]
async fn the_directory_layout_has_values_alone() {
    let fixture = Fixture::new();
    put_all(
        &fixture,
        &[
            ("t/2023/01/f.csv", 1),
            ("t/2024/01/f.csv", 2),
            ("t/2024/07/f.csv", 3),
            ("t/2024/__HIVE_DEFAULT_PARTITION__/f.csv", 4),
            ("t/2024/_temporary/f.csv", 5),
            ("t/_staging/01/f.csv", 6),
        ],
    )
    .await;
    let options = ", 'partition.layout' 'directory'";
    create(&fixture, "(id BIGINT, y INT, m INT)", "y, m", options)
        .await
        .unwrap();
    assert_eq!(
        fixture.rows("SELECT * FROM t").await,
        [
            "1 | 2023 | 1",
            "2 | 2024 | 1",
            "3 | 2024 | 7",
            "4 | 2024 | <null>"
        ]
    );
    fixture.requests.clear();
    assert_eq!(
        fixture
            .rows("SELECT id FROM t WHERE y = 2024 AND m = 7")
            .await,
        ["3"]
    );
    insta::assert_snapshot!(fixture.take_requests(), @r"
    GET /t/2024/07/f.csv
    LIST /t/ (delimiter)
    LIST /t/2024/ (delimiter)
    LIST /t/2024/07/
    ");
}

#[tokio::test]
async fn a_template_has_fixed_texts_and_several_columns_in_a_level() {
    let fixture = Fixture::new();
    put_all(
        &fixture,
        &[
            ("t/data/2023-12/d31.x/f.csv", 1),
            ("t/data/2024-01/d01.x/f.csv", 2),
            ("t/data/2024-02/d01.x/f.csv", 3),
            ("t/data/2024-02/d02.x/f.csv", 4),
            ("t/other/2024-02/d02.x/_f.csv", 5),
        ],
    )
    .await;
    let options = ", 'partition.layout' 'data/${y}-${m}/d${d}.x'";
    create(
        &fixture,
        "(id BIGINT, y INT, m INT, d TEXT)",
        "y, m, d",
        options,
    )
    .await
    .unwrap();
    assert_eq!(
        fixture.rows("SELECT * FROM t").await,
        [
            "1 | 2023 | 12 | 31",
            "2 | 2024 | 1 | 01",
            "3 | 2024 | 2 | 01",
            "4 | 2024 | 2 | 02"
        ]
    );
    fixture.requests.clear();
    assert_eq!(
        fixture
            .rows("SELECT id FROM t WHERE m = 2 AND d = '02'")
            .await,
        ["4"]
    );
    insta::assert_snapshot!(fixture.take_requests(), @r"
    GET /t/data/2024-02/d02.x/f.csv
    LIST /t/data/ (delimiter)
    LIST /t/data/2024-02/ (delimiter)
    LIST /t/data/2024-02/d02.x/
    ");
}

#[tokio::test]
async fn a_bad_layout_is_refused() {
    let fixture = Fixture::new();
    for (layout, message) in [
        ("hiv", "expected hive, directory or a template"),
        ("${m}/${y}", "the next partition column is 'y'"),
        ("${y}", "add ${m}"),
    ] {
        let options = format!(", 'partition.layout' '{layout}'");
        let error = create(&fixture, "(id BIGINT, y INT, m INT)", "y, m", &options)
            .await
            .unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}

#[tokio::test]
async fn a_root_may_look_like_a_partition() {
    let fixture = Fixture::new();
    put_all(
        &fixture,
        &[("t/year=2024/m=1/f.csv", 1), ("t/year=2024/m=2/f.csv", 2)],
    )
    .await;
    let location = fixture.lake.location("t/year=2024/");
    let sql = format!(
        "CREATE EXTERNAL TABLE a (id BIGINT, m INT) STORED AS CSV PARTITIONED BY (m) \
         LOCATION '{location}' OPTIONS ('connector' 'filesystem')"
    );
    fixture.run(&sql).await.unwrap();
    assert_eq!(fixture.rows("SELECT * FROM a").await, ["1 | 1", "2 | 2"]);
}

#[tokio::test]
async fn one_table_over_several_locations() {
    let fixture = Fixture::new();
    put_all(
        &fixture,
        &[
            ("old/p=1/f.csv", 1),
            ("old/p=2/f.csv", 2),
            ("new/p=2/f.csv", 3),
            ("new/p=3/f.csv", 4),
        ],
    )
    .await;
    let create = async |locations: &[&str]| {
        let locations: Vec<_> = locations
            .iter()
            .map(|path| format!("'{}'", fixture.lake.location(path)))
            .collect();
        let sql = format!(
            "CREATE OR REPLACE EXTERNAL TABLE t (id BIGINT, p INT) STORED AS CSV PARTITIONED BY (p) \
             LOCATION ({}) OPTIONS ('connector' 'filesystem')",
            locations.join(", ")
        );
        fixture.run(&sql).await.map_err(|error| error.to_string())
    };
    create(&["old/", "new/"]).await.unwrap();
    assert_eq!(
        fixture.rows("SELECT * FROM t").await,
        ["1 | 1", "2 | 2", "3 | 2", "4 | 3"]
    );
    fixture.requests.clear();
    assert_eq!(
        fixture.rows("SELECT id FROM t WHERE p = 2").await,
        ["2", "3"]
    );
    insta::assert_snapshot!(fixture.take_requests(), @r"
    GET /new/p=2/f.csv
    GET /old/p=2/f.csv
    LIST /new/ (delimiter)
    LIST /new/_commits/
    LIST /new/_commits/
    LIST /new/p=2/
    LIST /old/ (delimiter)
    LIST /old/_commits/
    LIST /old/_commits/
    LIST /old/p=2/
    ");

    for overlapping in [["old/", "old/"], ["old/", "old/p=1/"], ["old/p=1", "old"]] {
        let error = create(&overlapping).await.unwrap_err();
        assert!(error.contains("overlap"), "{error}");
    }
}

#[tokio::test]
async fn undeclared_types_print_what_the_directories_say() {
    let fixture = Fixture::new();
    put_all(
        &fixture,
        &[
            ("t/n=1/z=01/d=2024-06-01/m=1/f.csv", 1),
            ("t/n=20/z=2/d=2024-06-02/m=x/f.csv", 2),
            (
                "t/n=__HIVE_DEFAULT_PARTITION__/z=3/d=2024-06-03/m=2/f.csv",
                3,
            ),
        ],
    )
    .await;
    let types =
        "SELECT DISTINCT arrow_typeof(n), arrow_typeof(z), arrow_typeof(d), arrow_typeof(m) FROM t";
    for columns in ["", "(id BIGINT)"] {
        create(&fixture, columns, "n, z, d, m", "").await.unwrap();
        assert_eq!(
            fixture.rows(types).await,
            ["Int64 | Utf8View | Date32 | Utf8View"]
        );
    }
    assert_eq!(
        fixture.rows("SELECT * FROM t").await,
        [
            "1 | 1 | 01 | 2024-06-01 | 1",
            "2 | 20 | 2 | 2024-06-02 | x",
            "3 | <null> | 3 | 2024-06-03 | 2"
        ]
    );

    // Declared types win; the others are inferred.
    create(&fixture, "(id BIGINT, z INT)", "n, z, d, m", "")
        .await
        .unwrap();
    assert_eq!(
        fixture.rows(types).await,
        ["Int64 | Int32 | Date32 | Utf8View"]
    );

    // Switched off nothing is listed, and all of it is text.
    let off = ", 'partition.type-inference' 'false'";
    create(&fixture, "(id BIGINT)", "n, z, d, m", off)
        .await
        .unwrap();
    assert_eq!(
        fixture.rows(types).await,
        ["Utf8View | Utf8View | Utf8View | Utf8View"]
    );

    let dictionary = ", 'partition.dictionary' 'true'";
    create(&fixture, "(id BIGINT)", "n, z, d, m", dictionary)
        .await
        .unwrap();
    assert_eq!(
        fixture.rows(types).await,
        ["Int64 | Dictionary(Int32, Utf8) | Date32 | Dictionary(Int32, Utf8)"]
    );
    assert_eq!(
        fixture
            .rows("SELECT id, z, m FROM t WHERE z = '01' OR m = '2'")
            .await,
        ["1 | 01 | 1", "3 | 3 | 2"]
    );
    assert_eq!(
        fixture
            .rows("SELECT id FROM t JOIN (VALUES ('x')) v(m) ON t.m = v.m")
            .await,
        ["2"]
    );
}

#[tokio::test]
async fn partitions_are_chosen_by_their_text() {
    let fixture = Fixture::new();
    put_all(
        &fixture,
        &[
            ("t/year=1997/month=09/f.csv", 1),
            ("t/year=1997/month=10/f.csv", 2),
            ("t/year=1997/month=12/f.csv", 3),
            ("t/year=1998/month=12/f.csv", 4),
            ("t/year=__HIVE_DEFAULT_PARTITION__/month=12/f.csv", 5),
        ],
    )
    .await;
    // '9' would not be less than '10': the text is that of the directory, not of the number.
    let options = ", 'partitions' 'year=''1997'' AND month>=''10'''";
    create(
        &fixture,
        "(id BIGINT, year INT, month INT)",
        "year, month",
        options,
    )
    .await
    .unwrap();
    assert_eq!(fixture.rows("SELECT id FROM t").await, ["2", "3"]);
    insta::assert_snapshot!(fixture.take_requests(), @r"
    GET /t/year=1997/month=10/f.csv
    GET /t/year=1997/month=12/f.csv
    LIST /t/ (delimiter)
    LIST /t/year=1997/ (delimiter)
    LIST /t/year=1997/month=10/
    LIST /t/year=1997/month=12/
    ");
    assert_eq!(
        fixture.rows("SELECT id FROM t WHERE month = 12").await,
        ["3"]
    );
    fixture
        .run("SET partitioned.static_pruning = false")
        .await
        .unwrap();
    assert_eq!(
        fixture.rows("SELECT id FROM t WHERE month = 12").await,
        ["3"]
    );

    for (sql, message) in [
        ("id = 1", "id"),
        ("now() > year", "must depend on partition columns alone"),
        ("year", "expected a condition"),
        ("year =", "the partition filter"),
    ] {
        let options = format!(", 'partitions' '{sql}'");
        let error = create(&fixture, "(id BIGINT, year INT)", "year", &options)
            .await
            .unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}

#[tokio::test]
async fn a_filter_can_be_required() {
    let fixture = Fixture::new();
    put_all(&fixture, &[("t/p=1/f.csv", 1), ("t/p=2/f.csv", 2)]).await;
    let options = ", 'partition.filter-required' 'true'";
    create(&fixture, "(id BIGINT, p INT)", "p", options)
        .await
        .unwrap();
    for pruning in [true, false] {
        fixture
            .run(&format!("SET partitioned.static_pruning = {pruning}"))
            .await
            .unwrap();
        for refused in ["SELECT * FROM t", "SELECT * FROM t WHERE id = 1 LIMIT 1"] {
            let error = fixture.error(refused).await;
            assert!(
                error.contains("a filter on a partition column (p)"),
                "{error}"
            );
            assert_eq!(fixture.take_requests(), "");
        }
        for allowed in [
            "SELECT id FROM t WHERE p = 1",
            "SELECT id FROM t WHERE p = 1 OR (p = 2 AND id = 1)",
            "SELECT id FROM t JOIN (VALUES (1)) v(p) ON t.p = v.p",
        ] {
            assert_eq!(fixture.rows(allowed).await, ["1"], "{allowed}");
            fixture.requests.clear();
        }
    }
}

#[tokio::test]
async fn a_scan_reads_at_most_so_many_partitions() {
    let fixture = Fixture::new();
    for p in 0..20 {
        fixture.put_ids(&format!("t/p={p}/f.csv"), &[p]).await;
    }
    let options = ", 'partition.max' '3'";
    create(&fixture, "(id BIGINT, p INT)", "p", options)
        .await
        .unwrap();
    assert_eq!(
        fixture.rows("SELECT id FROM t WHERE p < 3").await,
        ["0", "1", "2"]
    );
    let error = fixture.error("SELECT count(*) FROM t WHERE p < 4").await;
    assert!(
        error.contains("at least 4 partitions") && error.contains("allows 3"),
        "{error}"
    );
}

#[tokio::test]
async fn a_partition_of_many_files_counts_once() {
    let fixture = Fixture::new();
    for file in 0..1001 {
        let key = format!("t/p=1/{file}.csv");
        fixture.put_ids(&key, &[file]).await;
    }
    create(&fixture, "(id BIGINT, p INT)", "p", ", 'partition.max' '1'")
        .await
        .unwrap();
    for (sql, expected) in [
        ("SELECT count(*) FROM t", "1001"),
        ("SELECT count(DISTINCT p) FROM t", "1"),
    ] {
        assert_eq!(fixture.rows(sql).await, [expected], "{sql}");
    }
}

#[tokio::test]
async fn what_the_option_partitions_leaves_out_need_not_fit_the_table() {
    for on_mismatch in ["error", "null", "skip"] {
        let fixture = Fixture::new();
        let files = [
            ("t/p=1/q=1/f.csv", 1),
            ("t/p=1/q=oops/f.csv", 2),
            ("t/p=oops/q=1/f.csv", 3),
        ];
        put_all(&fixture, &files).await;
        // Its columns are others, and it would be the last partition.
        let other = fixture.lake.put_text("t/p=zzz/q=1/f.csv", "other\nx\n");
        other.await.unwrap();
        let options = format!(
            ", 'partitions' 'p NOT IN (''oops'', ''zzz'') AND q <> ''oops''', \
             'partition.on-mismatch' '{on_mismatch}'"
        );
        for columns in ["(id BIGINT, p INT, q INT)", ""] {
            create(&fixture, columns, "p, q", &options).await.unwrap();
            for filter in ["true", "p = 1", "q = 1", "p + q = 2", "id = 1"] {
                let sql = format!("SELECT id, p + 1, q FROM t WHERE {filter}");
                let (rows, plan) = fixture.analyze(&sql).await;
                assert_eq!(rows, ["1 | 2 | 1"], "{sql}");
                assert_eq!(scan_metric(&plan, "partitions_mismatched"), 0, "{sql}");
            }
            let sql = "SELECT q FROM t ORDER BY p, q LIMIT 3";
            assert_eq!(fixture.rows(sql).await, ["1"]);
        }
    }
}

#[tokio::test]
async fn only_directories_of_a_fixed_name_are_looked_at() {
    let fixture = Fixture::new();
    let files = [
        ("t/data/1/x/f.csv", 1),
        ("t/data/1/y/f.csv", 2),
        ("t/old/1/x/f.csv", 3),
    ];
    put_all(&fixture, &files).await;
    let queries = [
        "SELECT id FROM t",
        "SELECT id FROM t WHERE p > 0",
        "SELECT id FROM t ORDER BY p LIMIT 5",
    ];
    for (layout, is_there) in [("data/${p}/x", true), ("new/${p}/x", false)] {
        let options = format!(", 'partition.layout' '{layout}'");
        create(&fixture, "(id BIGINT, p INT)", "p", &options)
            .await
            .unwrap();
        for sql in queries {
            if is_there {
                assert_eq!(fixture.rows(sql).await, ["1"], "{layout}: {sql}");
            } else {
                let error = fixture.error(sql).await;
                assert!(error.contains("directories 'new/<p>/x/'"), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn a_directory_that_does_not_fit_is_counted_once() {
    let fixture = Fixture::new();
    let files = [
        ("t/p=1/q=1/f.csv", 1),
        ("t/p=2/q=1/f.csv", 2),
        ("t/p=oops/q=1/f.csv", 3),
        ("t/p=oops/q=2/f.csv", 4),
    ];
    put_all(&fixture, &files).await;
    let options = ", 'partition.on-mismatch' 'skip'";
    create(&fixture, "(id BIGINT, p INT, q INT)", "p, q", options)
        .await
        .unwrap();
    for filter in ["true", "p > 0", "p = 1", "q = 1", "q > 0"] {
        let sql = format!("SELECT id FROM t WHERE {filter}");
        let (_, plan) = fixture.analyze(&sql).await;
        assert_eq!(scan_metric(&plan, "partitions_mismatched"), 1, "{sql}");
    }
}

#[tokio::test]
async fn files_are_selected_by_their_path() {
    let fixture = Fixture::new();
    put_all(
        &fixture,
        &[
            ("t/p=1/a.csv", 1),
            ("t/p=1/a.csv.bak", 2),
            ("t/p=2/b.tmp", 3),
        ],
    )
    .await;
    let options = ", 'source.path.regex-pattern' '/t/.*\\.csv'";
    create(&fixture, "(id BIGINT, p INT)", "p", options)
        .await
        .unwrap();
    assert_eq!(fixture.rows("SELECT * FROM t").await, ["1 | 1"]);
    assert_eq!(fixture.rows("SELECT * FROM t WHERE p > 0").await, ["1 | 1"]);
    let error = create(
        &fixture,
        "(id BIGINT, p INT)",
        "p",
        ", 'source.path.regex-pattern' '('",
    )
    .await
    .unwrap_err();
    assert!(error.contains("source.path.regex-pattern"), "{error}");
    // A file that is not selected is not in the wrong place.
    let options = ", 'source.path.regex-pattern' 'a.csv'";
    create(&fixture, "(id BIGINT, p INT)", "p", options)
        .await
        .unwrap();
    assert!(fixture.rows("SELECT * FROM t").await.is_empty());
    assert!(fixture.rows("SELECT * FROM t WHERE p > 0").await.is_empty());
}

#[tokio::test]
async fn what_does_not_fit_is_an_error_null_or_skipped() {
    let fixture = Fixture::new();
    put_all(
        &fixture,
        &[
            ("t/year=2023/f.csv", 1),
            ("t/year=oops/f.csv", 2),
            ("t/notes/f.csv", 3),
        ],
    )
    .await;
    let all = "SELECT * FROM t";
    let one = "SELECT id FROM t WHERE year = 2023";
    let columns = "(id BIGINT, year INT)";
    for pruning in [true, false] {
        fixture
            .run(&format!("SET partitioned.static_pruning = {pruning}"))
            .await
            .unwrap();
        create(&fixture, columns, "year", "").await.unwrap();
        for sql in [all, one] {
            let error = fixture.error(sql).await;
            assert!(error.contains("oops") || error.contains("notes"), "{error}");
        }
        create(
            &fixture,
            columns,
            "year",
            ", 'partition.on-mismatch' 'skip'",
        )
        .await
        .unwrap();
        assert_eq!(fixture.rows(all).await, ["1 | 2023"]);
        assert_eq!(fixture.rows(one).await, ["1"]);
        create(
            &fixture,
            columns,
            "year",
            ", 'partition.on-mismatch' 'null'",
        )
        .await
        .unwrap();
        let error = fixture.error(all).await;
        assert!(error.contains("notes"), "{error}");
    }
    // Without bytes it is no data file any more.
    fixture.lake.put_text("t/notes/f.csv", "").await.unwrap();
    for pruning in [true, false] {
        fixture
            .run(&format!("SET partitioned.static_pruning = {pruning}"))
            .await
            .unwrap();
        assert_eq!(fixture.rows(all).await, ["1 | 2023", "2 | <null>"]);
        assert_eq!(
            fixture.rows("SELECT id FROM t WHERE year IS NULL").await,
            ["2"]
        );
    }
    let error = create(
        &fixture,
        columns,
        "year",
        ", 'partition.on-mismatch' 'ignore'",
    )
    .await
    .unwrap_err();
    assert!(error.contains("error, null or skip"), "{error}");
}
