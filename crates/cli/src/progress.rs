//! How far a query has come, on a line of the terminal that is there only as long as it runs.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use console::Term;
use datafusion::prelude::SessionContext;
use datafusion_partitioned::core::{PartitionReports, ScanProgressReport, ScanReport};
use datafusion_partitioned::prelude::PartitionedSession;
use indicatif::{
    BinaryBytes, HumanCount, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle,
    TermLike,
};
use tokio::time::sleep;

/// Queries that end earlier show nothing.
const SHOWN_AFTER: Duration = Duration::from_secs(1);
const SHOWN_EVERY: Duration = Duration::from_millis(100);
/// With the space behind it.
const SPINNER_WIDTH: usize = 2;

/// The progress of one query, from before it starts.
pub(crate) struct Progress {
    is_shown: bool,
    bar: OnceLock<ProgressBar>,
    is_over: AtomicBool,
    started: Instant,
    reports: Option<Arc<PartitionReports>>,
    /// The scans of the query before.
    before: Vec<Arc<ScanReport>>,
}

impl Progress {
    /// Progress that nobody sees.
    pub(crate) fn hidden() -> Self {
        Self {
            is_shown: false,
            bar: OnceLock::new(),
            is_over: AtomicBool::new(false),
            started: Instant::now(),
            reports: None,
            before: vec![],
        }
    }

    /// The progress of what starts in the session next, on the standard error of the process.
    pub(crate) fn of_next_query(context: &SessionContext) -> Self {
        let reports = context.partition_reports();
        let before = reports.as_ref().map(|reports| reports.last_query());
        let mut progress = Self::hidden();
        progress.is_shown = true;
        progress.before = before.unwrap_or_default();
        progress.reports = reports;
        progress
    }

    /// Shows the progress as long as this is polled.
    pub(crate) async fn show(&self, rows: &AtomicU64) -> Infallible {
        if !self.is_shown {
            pending::<()>().await;
        }
        sleep(SHOWN_AFTER).await;
        while !self.is_over.load(Ordering::Relaxed) {
            let bar = self.bar.get_or_init(new_bar);
            let scans = self.scans();
            let rows = rows.load(Ordering::Relaxed);
            let mut text = describe(self.started.elapsed(), rows, &scans);
            let width = usize::from(Screen::new().width());
            text.truncate(width.saturating_sub(SPINNER_WIDTH));
            bar.set_message(text);
            bar.tick();
            sleep(SHOWN_EVERY).await;
        }
        pending().await
    }

    /// Takes the line away for good: the query has ended, or its rows are going to be shown.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }

    fn scans(&self) -> Vec<ScanProgressReport> {
        let scans = self.reports.as_ref().map(|reports| reports.last_query());
        let is_old = |scan: &Arc<ScanReport>| self.before.iter().any(|old| Arc::ptr_eq(old, scan));
        let mut scans = scans.unwrap_or_default();
        scans.retain(|scan| !is_old(scan));
        scans
            .iter()
            .map(|scan| scan.metrics.progress.report())
            .collect()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

fn new_bar() -> ProgressBar {
    ProgressBar::with_draw_target(None, ProgressDrawTarget::term_like(Box::new(Screen::new())))
        .with_style(ProgressStyle::default_spinner())
}

/// The standard error less some columns. The bar fills its line, so that what is typed meanwhile, such as
/// the characters `^C`, would begin a line of its own, and that of the bar could not be taken away.
#[derive(Debug)]
struct Screen(Term);

impl Screen {
    const ROOM_FOR_TYPING: u16 = 16;

    fn new() -> Self {
        Self(Term::stderr())
    }
}

impl TermLike for Screen {
    fn width(&self) -> u16 {
        let (_, columns) = self.0.size();
        columns.saturating_sub(Self::ROOM_FOR_TYPING)
    }

    fn height(&self) -> u16 {
        self.0.size().0
    }

    fn move_cursor_up(&self, lines: usize) -> io::Result<()> {
        self.0.move_cursor_up(lines)
    }

    fn move_cursor_down(&self, lines: usize) -> io::Result<()> {
        self.0.move_cursor_down(lines)
    }

    fn move_cursor_right(&self, columns: usize) -> io::Result<()> {
        self.0.move_cursor_right(columns)
    }

    fn move_cursor_left(&self, columns: usize) -> io::Result<()> {
        self.0.move_cursor_left(columns)
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.0.write_line(text)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.0.write_str(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.0.clear_line()
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Such as `12s, 80 of 215 files, 1.20 GiB of 3.40 GiB, 20s left`.
fn describe(elapsed: Duration, rows: u64, scans: &[ScanProgressReport]) -> String {
    let mut parts = vec![format!("{}s", elapsed.as_secs())];
    let sum = |of: fn(&ScanProgressReport) -> u64| scans.iter().map(of).sum::<u64>();
    let files = sum(|scan| scan.files);
    if files > 0 {
        let done = sum(|scan| scan.files_done);
        parts.push(format!(
            "{} of {} files",
            HumanCount(done),
            HumanCount(files)
        ));
        let (done, bytes) = (sum(|scan| scan.bytes_done), sum(|scan| scan.bytes));
        parts.push(format!("{} of {}", BinaryBytes(done), BinaryBytes(bytes)));
    }
    let without_files = || scans.iter().filter(|scan| scan.files == 0);
    let units: u64 = without_files().map(|scan| scan.units).sum();
    if units > 0 {
        let done: u64 = without_files().map(|scan| scan.units_done).sum();
        parts.push(format!(
            "{} of {} units",
            HumanCount(done),
            HumanCount(units)
        ));
    }
    if scans.is_empty() {
        parts.push(format!("{} rows", HumanCount(rows)));
    } else if scans.iter().any(|scan| !scan.is_listed) {
        parts.push("listing".to_owned());
    } else if let Some(left) = time_left(elapsed, scans) {
        parts.push(format!("{} left", HumanDuration(left)));
    }
    parts.join(", ")
}

/// How long it takes if it goes on like this. Known for scans of which something, and not all, has been
/// read.
fn time_left(elapsed: Duration, scans: &[ScanProgressReport]) -> Option<Duration> {
    let sum = |of: fn(&ScanProgressReport) -> u64| scans.iter().map(of).sum::<u64>();
    let (done, all) = match scans.iter().all(|scan| scan.bytes > 0 || scan.units == 0) {
        true => (sum(|scan| scan.bytes_done), sum(|scan| scan.bytes)),
        false => (sum(|scan| scan.units_done), sum(|scan| scan.units)),
    };
    (0 < done && done < all).then(|| elapsed.mul_f64((all - done) as f64 / done as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_without_partitioned_scans_have_time_and_rows() {
        let text = describe(Duration::from_millis(2900), 12_345, &[]);
        assert_eq!(text, "2s, 12,345 rows");
    }

    #[test]
    fn the_time_left_is_known_when_listing_is_complete() {
        let mut scan = ScanProgressReport {
            files: 200,
            files_done: 50,
            bytes: 4096,
            bytes_done: 1024,
            units: 8,
            units_done: 2,
            is_listed: false,
        };
        let describe = |scan| describe(Duration::from_secs(10), 7, &[scan]);
        assert_eq!(
            describe(scan),
            "10s, 50 of 200 files, 1.00 KiB of 4.00 KiB, listing"
        );
        scan.is_listed = true;
        assert_eq!(
            describe(scan),
            "10s, 50 of 200 files, 1.00 KiB of 4.00 KiB, 30 seconds left"
        );
        scan.bytes_done = 4096;
        assert!(!describe(scan).contains("left"));
    }

    #[test]
    fn sources_without_files_count_units() {
        let scan = ScanProgressReport {
            units: 4,
            units_done: 1,
            is_listed: true,
            ..Default::default()
        };
        let text = describe(Duration::from_secs(2), 0, &[scan]);
        assert_eq!(text, "2s, 1 of 4 units, 6 seconds left");
    }
}
