//! [`KeyDomain`]: what `EXPLAIN ANALYZE` shows of the keys themselves.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use datafusion::physical_plan::metrics::CustomMetricValue;
use datafusion_partitioned_core::KeySet;

/// The domain of the keys as a short text, once they are known.
#[derive(Debug, Default)]
pub(crate) struct KeyDomain(OnceLock<String>);

impl KeyDomain {
    pub(crate) fn set(&self, keys: &KeySet) {
        // A collection is published once.
        let _ = self.0.set(keys.to_string());
    }
}

impl fmt::Display for KeyDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.0.get().map_or("unknown", String::as_str))
    }
}

/// There is one for each execution; of several, the first is shown.
impl CustomMetricValue for KeyDomain {
    fn new_empty(&self) -> Arc<dyn CustomMetricValue> {
        Arc::new(Self::default())
    }

    fn aggregate(&self, other: Arc<dyn CustomMetricValue + 'static>) {
        if let Some(other) = other.as_any().downcast_ref::<Self>()
            && let Some(domain) = other.0.get()
        {
            let _ = self.0.set(domain.clone());
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn is_eq(&self, other: &Arc<dyn CustomMetricValue>) -> bool {
        let other = other.as_any().downcast_ref::<Self>();
        other.is_some_and(|other| other.0.get() == self.0.get())
    }
}
