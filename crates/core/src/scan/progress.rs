//! [`ScanProgress`]: how far an execution of a scan has come, for those who wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How far an execution of a scan has come. Clones count into the same place.
///
/// An execution of a [`PartitionScan`](super::PartitionScan) counts units of work; a reader whose units are made of files
/// counts these too, with [`Self::add_files`] when they are known and [`Self::start_file`] when one
/// is read. Nothing is counted for a row or a batch.
#[derive(Debug, Clone, Default)]
pub struct ScanProgress(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    is_listed: AtomicBool,
    units: AtomicU64,
    units_done: AtomicU64,
    files: AtomicU64,
    files_done: AtomicU64,
    bytes: AtomicU64,
    bytes_done: AtomicU64,
}

/// What [`ScanProgress`] says at some time. The numbers of what is known grow as long as the scan is
/// listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScanProgressReport {
    /// Whether everything is known that the scan is going to read.
    pub is_listed: bool,
    /// The units of work that are known.
    pub units: u64,
    /// Those that have been read.
    pub units_done: u64,
    /// The files that are known; 0 for sources without files.
    pub files: u64,
    /// Those that have been read, or have turned out not to be needed.
    pub files_done: u64,
    /// The bytes of the files that are known.
    pub bytes: u64,
    /// Those of the files, or parts of files, that are done with.
    pub bytes_done: u64,
}

impl ScanProgress {
    /// What has been counted so far.
    pub fn report(&self) -> ScanProgressReport {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = &self.0;
        // What is done comes first, so that it is never more than what is known.
        let (units_done, files_done) = (load(&counts.units_done), load(&counts.files_done));
        let bytes_done = load(&counts.bytes_done);
        ScanProgressReport {
            is_listed: counts.is_listed.load(Ordering::Acquire),
            units: load(&counts.units),
            units_done,
            files: load(&counts.files),
            files_done,
            bytes: load(&counts.bytes),
            bytes_done,
        }
    }

    /// Counts files that are going to be read, of `bytes` bytes together.
    pub fn add_files(&self, files: usize, bytes: u64) {
        self.0.files.fetch_add(files as u64, Ordering::Relaxed);
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What is to be kept until `bytes` bytes of a file have been read. A file that is read in parts
    /// counts with the one that [`is_whole_or_first`](FilePart::is_whole_or_first).
    pub fn start_file(&self, part: FilePart) -> FileInProgress {
        FileInProgress {
            part,
            counts: Arc::clone(&self.0),
        }
    }

    pub(super) fn add_units(&self, units: usize) {
        self.0.units.fetch_add(units as u64, Ordering::Relaxed);
    }

    pub(super) fn start_unit(&self) -> UnitInProgress {
        UnitInProgress(Arc::clone(&self.0))
    }

    pub(super) fn set_listed(&self) {
        self.0.is_listed.store(true, Ordering::Release);
    }
}

/// The part of a file that one stream reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilePart {
    /// Its bytes.
    pub bytes: u64,
    /// Whether the file begins in it.
    pub is_whole_or_first: bool,
}

/// A file, or a part of one, that is being read. It is done when this is dropped.
#[derive(Debug)]
pub struct FileInProgress {
    part: FilePart,
    counts: Arc<Counts>,
}

impl Drop for FileInProgress {
    fn drop(&mut self) {
        let files = u64::from(self.part.is_whole_or_first);
        self.counts.files_done.fetch_add(files, Ordering::Relaxed);
        let bytes = self.part.bytes;
        self.counts.bytes_done.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A unit of work that is being read. It is done when this is dropped.
pub(super) struct UnitInProgress(Arc<Counts>);

impl Drop for UnitInProgress {
    fn drop(&mut self) {
        self.0.units_done.fetch_add(1, Ordering::Relaxed);
    }
}
