//! The connectors of a session, by identifier.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use datafusion::common::{Result, TableReference, config_datafusion_err, config_err};

use datafusion_partitioned_core::{did_you_mean, quoted_list};

use crate::Connector;

/// The known connectors. Shared by all table factories of a session, and safe to extend while in
/// use.
#[derive(Default)]
pub struct ConnectorRegistry {
    connectors: RwLock<BTreeMap<String, Arc<dyn Connector>>>,
}

impl ConnectorRegistry {
    /// Creates a registry without connectors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a connector under its identifier. Case matters, as in Flink.
    ///
    /// # Errors
    /// When there is one already; see [`Self::replace`].
    pub fn register(&self, connector: Arc<dyn Connector>) -> Result<()> {
        let mut connectors = self.write();
        let identifier = connector.identifier();
        if connectors.contains_key(identifier) {
            return config_err!(
                "the connector '{identifier}' is registered already, as one of: {}; give the new one \
                 another identifier, or replace the one that is there",
                quoted_list(connectors.keys().map(String::as_str))
            );
        }
        connectors.insert(identifier.to_owned(), connector);
        Ok(())
    }

    /// Adds a connector in the place of the one with its identifier, which is returned.
    pub fn replace(&self, connector: Arc<dyn Connector>) -> Option<Arc<dyn Connector>> {
        let identifier = connector.identifier().to_owned();
        self.write().insert(identifier, connector)
    }

    /// Finds the connector that is to make the table.
    ///
    /// # Errors
    /// When there is none; lists those that are there.
    pub fn get(&self, identifier: &str, table: &TableReference) -> Result<Arc<dyn Connector>> {
        self.find(identifier)
            .map_err(|error| config_datafusion_err!("table '{table}': {error}"))
    }

    /// Finds a connector, or says that there is none and which there are.
    ///
    /// # Errors
    /// That text.
    pub fn find(&self, identifier: &str) -> Result<Arc<dyn Connector>, String> {
        let connectors = self
            .connectors
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        connectors.get(identifier).map(Arc::clone).ok_or_else(|| {
            let known = || connectors.keys().map(String::as_str);
            format!(
                "unknown connector '{identifier}'{}; expected one of: {}",
                did_you_mean(identifier, known()),
                quoted_list(known())
            )
        })
    }

    /// The first connector that has an option with this key.
    pub(crate) fn with_option(&self, key: &str) -> Option<String> {
        let connectors = self
            .connectors
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let mut connectors = connectors.iter();
        let has_option = |connector: &dyn Connector| {
            let options = connector.options();
            options.iter().any(|option| option.has_key(key))
        };
        let (identifier, _) = connectors.find(|(_, connector)| has_option(connector.as_ref()))?;
        Some(identifier.clone())
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Arc<dyn Connector>>> {
        self.connectors
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The identifiers of all connectors, sorted.
    pub fn identifiers(&self) -> Vec<String> {
        let connectors = self
            .connectors
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        connectors.keys().cloned().collect()
    }
}

impl fmt::Debug for ConnectorRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConnectorRegistry")
            .field(&self.identifiers())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use datafusion::catalog::TableProvider;
    use datafusion::common::not_impl_err;

    use super::*;
    use crate::{ConnectorContext, OptionDescription};

    #[test]
    fn unknown_identifier_lists_the_known_ones_sorted() {
        let registry = registry(&["memory", "filesystem"]);
        let error = registry.get("filesytem", &table()).unwrap_err();
        assert_eq!(
            error.strip_backtrace(),
            "Invalid or Unsupported Configuration: table 'sales': unknown connector 'filesytem' \
             (did you mean 'filesystem'?); expected one of: 'filesystem', 'memory'"
        );
    }

    #[test]
    fn empty_registry_says_that_there_are_none() {
        let error = registry(&[]).get("x", &table()).unwrap_err().to_string();
        assert!(error.ends_with("expected one of: none"), "{error}");
    }

    #[test]
    fn identifiers_are_registered_once_and_replaced_on_purpose() {
        let registry = registry(&["b", "a"]);
        let error = registry.register(Arc::new(Named("a"))).unwrap_err();
        assert!(
            error.to_string().contains(
                "the connector 'a' is registered already, as one of: 'a', 'b'; give the new one another"
            ),
            "{error}"
        );
        assert!(registry.replace(Arc::new(Named("a"))).is_some());
        assert!(registry.replace(Arc::new(Named("c"))).is_none());
        assert_eq!(registry.identifiers(), ["a", "b", "c"]);
    }

    #[derive(Debug)]
    struct Named(&'static str);

    #[async_trait]
    impl Connector for Named {
        fn identifier(&self) -> &str {
            self.0
        }

        fn options(&self) -> Vec<OptionDescription> {
            vec![]
        }

        async fn create_table(&self, _: &ConnectorContext<'_>) -> Result<Arc<dyn TableProvider>> {
            not_impl_err!("not needed here")
        }
    }

    fn registry(identifiers: &[&'static str]) -> ConnectorRegistry {
        let registry = ConnectorRegistry::new();
        for identifier in identifiers {
            registry.register(Arc::new(Named(identifier))).unwrap();
        }
        registry
    }

    fn table() -> TableReference {
        TableReference::bare("sales")
    }
}
