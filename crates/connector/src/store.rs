//! [`StoreOpener`]: options of a statement that are about the object store of its locations.

use std::fmt::Debug;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::runtime_env::RuntimeEnv;

use crate::{ConnectorOptions, OptionDescription};

/// Opens the object stores of locations as the options of a statement say. With one in the session, every
/// connector's statements may have these options, and their definitions keep them.
pub trait StoreOpener: Debug + Send + Sync {
    /// The options, whose keys have a prefix of their own, such as `aws.region`.
    fn options(&self) -> Vec<OptionDescription>;

    /// Registers the stores of `locations` in `runtime`, where `options` has some for them.
    ///
    /// # Errors
    /// When the options do not suit the locations, and when a store cannot be opened.
    fn open(
        &self,
        locations: &[String],
        options: &ConnectorOptions,
        runtime: &RuntimeEnv,
    ) -> Result<()>;
}

/// The [`StoreOpener`] of a session: an extension of its configuration.
#[derive(Debug, Clone)]
pub struct SessionStoreOpener(pub Arc<dyn StoreOpener>);
