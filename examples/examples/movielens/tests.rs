//! The example over a small file of ratings.

use std::fs;

use super::*;

/// Midnight in Shanghai, 21 September 1997; in UTC it is 16:00 on the day before.
const MIDNIGHT: i64 = 874_771_200;
const DAY: i64 = 24 * 3600;

#[tokio::test]
async fn ratings_lie_in_the_directory_of_their_day_in_shanghai() -> Result<()> {
    let lake = TestLake::new(&[MIDNIGHT - 1, MIDNIGHT, MIDNIGHT + DAY - 1, MIDNIGHT + DAY])?;
    assert_eq!(lake.lay_out().await?, 4);
    let days = lake
        .directory
        .path()
        .join("data_with_partitions/year=1997/month=09");
    let mut names: Vec<_> = fs::read_dir(days)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_>>()?;
    names.sort();
    assert_eq!(names, ["day=20", "day=21", "day=22"]);
    Ok(())
}

#[tokio::test]
async fn selections_read_their_directories_alone() -> Result<()> {
    // 20, 30 September; 2, 13 October; 31 December 1997; 1, 3 January 1998, each with two ratings.
    let days = [-1, 9, 11, 22, 101, 102, 104];
    let times: Vec<_> = days
        .iter()
        .flat_map(|day| [MIDNIGHT + day * DAY, MIDNIGHT + day * DAY + 3600])
        .collect();
    let lake = TestLake::new(&times)?;
    lake.lay_out().await?;

    let mut seen = Vec::new();
    for partitions in SELECTIONS {
        let run = run_selection(&lake.ctx, &lake.lake, partitions).await?;
        assert_eq!(run.partitions_listed, run.files_scanned);
        seen.push((run.rows, run.files_scanned, run.days.join(" ")));
    }
    let expected = [
        (14, 7, "01 02 03 13 20 30 31"),
        (10, 5, "02 13 20 30 31"),
        (6, 3, "02 13 31"),
        (4, 2, "30 31"),
        (8, 4, "03 13 30 31"),
        (4, 2, "01 02"),
    ];
    assert_eq!(
        seen,
        expected.map(|(rows, files, days)| (rows, files, days.to_owned()))
    );
    Ok(())
}

#[tokio::test]
async fn statistics_print_as_alink_prints_them() -> Result<()> {
    let lake = TestLake::new(&[MIDNIGHT, MIDNIGHT + 1, MIDNIGHT + 2])?;
    lake.lay_out().await?;
    let run = run_selection(&lake.ctx, &lake.lake, None).await?;
    // Users 1, 2, 3; items 10, 20, 30; ratings 1, 1.5, 2.
    let expected = "\
|colName|count|missing|sum|mean|variance|min|max|
|-------|-----|-------|---|----|--------|---|---|
|user_id|    3|      0|  6|   2|       1|  1|  3|
|item_id|    3|      0| 60|  20|     100| 10| 30|
| rating|    3|      0|4.5| 1.5|    0.25|  1|  2|
|     ts|    3|      0|NaN| NaN|     NaN|NaN|NaN|";
    assert_eq!(statistics::table(&run.statistics), expected);
    Ok(())
}

#[tokio::test]
async fn statistics_other_than_those_of_the_chapter_are_an_error() -> Result<()> {
    let expected = chapter_statistics(None).unwrap();
    statistics::check(&expected, &expected)?;
    let mut actual = expected.clone();
    actual[0].numbers = actual[0].numbers.map(|[sum, rest @ ..]| {
        let [mean, variance, min, max] = rest;
        [sum + 1.0, mean, variance, min, max]
    });
    let error = statistics::check(&actual, &expected)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("46248476") && error.contains("46248475"),
        "{error}"
    );
    Ok(())
}

#[tokio::test]
async fn a_rating_without_a_time_is_in_the_partition_of_null() -> Result<()> {
    let lake = TestLake::with_lines("1\t10\t1.0\t874771200\n2\t20\t1.5\t\n")?;
    assert_eq!(lake.lay_out().await?, 2);
    let tree = lake.directory.path().join(ratings::TREE);
    assert!(tree.join("year=__HIVE_DEFAULT_PARTITION__").exists());
    Ok(())
}

#[tokio::test]
async fn files_that_are_not_ratings_are_errors() -> Result<()> {
    let lake = TestLake::new(&[])?;
    let file = lake.directory.path().join("other");
    let missing = ratings::register(&lake.ctx, &file).await.unwrap_err();
    assert!(
        missing.to_string().contains("fetch-movielens.sh"),
        "{missing}"
    );
    fs::write(&file, "item_id:token\tuser_id:token\n1\t2\n")?;
    let other = ratings::register(&lake.ctx, &file).await.unwrap_err();
    assert!(other.to_string().contains("the header of"), "{other}");
    Ok(())
}

struct TestLake {
    directory: tempfile::TempDir,
    lake: Lake,
    ctx: SessionContext,
}

impl TestLake {
    /// One rating at each of `times`, by users 1, 2, .. of items 10, 20, .. with 1, 1.5, ..
    fn new(times: &[i64]) -> Result<Self> {
        let lines = (1..).zip(times).map(|(user, seconds)| {
            let rating = f64::from(user + 1) / 2.0;
            format!("{user}\t{}\t{rating}\t{seconds}\n", user * 10)
        });
        Self::with_lines(&lines.collect::<String>())
    }

    fn with_lines(lines: &str) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let text = format!("user_id:token\titem_id:token\trating:float\ttimestamp:float\n{lines}");
        fs::write(directory.path().join("ratings.inter"), text)?;
        fs::create_dir(directory.path().join(ratings::TREE))?;
        Ok(Self {
            lake: Lake::local(directory.path())?,
            directory,
            ctx: SessionContext::new().with_partitioned(),
        })
    }

    async fn lay_out(&self) -> Result<usize> {
        let file = self.directory.path().join("ratings.inter");
        ratings::register(&self.ctx, &file).await?;
        ratings::lay_out(&self.ctx, &self.lake).await
    }
}
