//! Errors that name the file, and its progress: wraps what reads a file, from opening it to its last row.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::FileOpener;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion_datasource::morsel::{Morsel, MorselPlan, MorselPlanner, Morselizer};
use datafusion_partitioned_catalog::url_of;
use datafusion_partitioned_core::{FileInProgress, ScanProgress};
use futures::StreamExt;
use futures::stream::BoxStream;

use super::start_file;

type RowStream = BoxStream<'static, Result<RecordBatch>>;

/// A [`Morselizer`] whose errors say which file they are about, and whose files count as progress.
#[derive(Debug)]
pub(crate) struct NamingMorselizer {
    pub(crate) inner: Box<dyn Morselizer>,
    pub(crate) store_url: ObjectStoreUrl,
    pub(crate) progress: ScanProgress,
}

impl Morselizer for NamingMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let name = FileName(Arc::new(OpenFile {
            url: url_of(&self.store_url, &file.object_meta.location),
            _in_progress: start_file(&self.progress, &file),
        }));
        match self.inner.plan_file(file) {
            Ok(planner) => Ok(Box::new(NamingPlanner {
                inner: planner,
                name,
            })),
            Err(error) => Err(name.context(error)),
        }
    }
}

/// Whether a file is not there.
fn is_missing(error: &DataFusionError) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let error_of_store = error.downcast_ref::<object_store::Error>();
        if matches!(error_of_store, Some(object_store::Error::NotFound { .. })) {
            return true;
        }
        cause = error.source();
    }
    // DataFusion keeps the text alone of an error about the metadata of a Parquet file.
    let text = error.strip_backtrace();
    text.contains("Failed to fetch metadata") && text.contains("not found")
}

/// The name of a file, kept by whatever is still going to read it.
#[derive(Debug, Clone)]
struct FileName(Arc<OpenFile>);

#[derive(Debug)]
struct OpenFile {
    url: String,
    _in_progress: FileInProgress,
}

impl FileName {
    fn context(&self, error: DataFusionError) -> DataFusionError {
        let advice = match error.find_root() {
            _ if is_missing(&error) => {
                ", which was there when the query listed its partition and has been replaced or deleted since; run the query \
                 again"
            }
            DataFusionError::ParquetError(_) => {
                "; if it is no data, begin its name with '_' or '.', or leave it out by \
                 'source.path.regex-pattern'"
            }
            DataFusionError::ArrowError(parse, _) if matches!(parse.as_ref(), ArrowError::ParseError(text) if text.contains(" at line 0. ")) => {
                "; if its first line has the names of the columns, set 'has_header' to 'true'"
            }
            _ => "",
        };
        error.context(format!("cannot read '{}'{advice}", self.0.url))
    }

    fn planner(&self, inner: Box<dyn MorselPlanner>) -> Box<dyn MorselPlanner> {
        let name = self.clone();
        Box::new(NamingPlanner { inner, name })
    }

    fn morsel(&self, inner: Box<dyn Morsel>) -> Box<dyn Morsel> {
        let name = self.clone();
        Box::new(NamingMorsel { inner, name })
    }
}

#[derive(Debug)]
struct NamingPlanner {
    inner: Box<dyn MorselPlanner>,
    name: FileName,
}

impl MorselPlanner for NamingPlanner {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        let Self { inner, name } = *self;
        let Some(mut plan) = inner.plan().map_err(|error| name.context(error))? else {
            return Ok(None);
        };
        let morsels = plan.take_morsels().into_iter();
        let planners = plan.take_ready_planners().into_iter();
        let mut named = MorselPlan::new()
            .with_morsels(morsels.map(|morsel| name.morsel(morsel)).collect())
            .with_planners(planners.map(|planner| name.planner(planner)).collect());
        if let Some(pending) = plan.take_pending_planner() {
            named.set_pending_planner(async move {
                match pending.await {
                    Ok(planner) => Ok(name.planner(planner)),
                    Err(error) => Err(name.context(error)),
                }
            });
        }
        Ok(Some(named))
    }
}

#[derive(Debug)]
struct NamingMorsel {
    inner: Box<dyn Morsel>,
    name: FileName,
}

impl Morsel for NamingMorsel {
    fn into_stream(self: Box<Self>) -> RowStream {
        let Self { inner, name } = *self;
        let rows = inner.into_stream();
        rows.map(move |batch| batch.map_err(|error| name.context(error)))
            .boxed()
    }
}

/// A [`Morselizer`] of whole files, each of which a [`FileOpener`] opens.
pub(crate) struct OpenerMorselizer(pub(crate) Arc<dyn FileOpener>);

impl fmt::Debug for OpenerMorselizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenerMorselizer").finish_non_exhaustive()
    }
}

impl Morselizer for OpenerMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        Ok(Box::new(Unopened {
            opener: Arc::clone(&self.0),
            file,
        }))
    }
}

struct Unopened {
    opener: Arc<dyn FileOpener>,
    file: PartitionedFile,
}

impl fmt::Debug for Unopened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Unopened")
            .field(&self.file.object_meta.location)
            .finish()
    }
}

impl MorselPlanner for Unopened {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        let Self { opener, file } = *self;
        Ok(Some(MorselPlan::new().with_pending_planner(async move {
            let rows = opener.open(file)?.await?;
            Ok(Box::new(Opened(rows)) as Box<dyn MorselPlanner>)
        })))
    }
}

/// A file that has been opened: both the planner with nothing left to plan and its only morsel.
struct Opened(RowStream);

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").finish_non_exhaustive()
    }
}

impl MorselPlanner for Opened {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        Ok(Some(MorselPlan::new().with_morsels(vec![self])))
    }
}

impl Morsel for Opened {
    fn into_stream(self: Box<Self>) -> RowStream {
        self.0
    }
}
