//! The connectors of a session, by identifier.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use datafusion::common::{Result, TableReference, config_err};

use crate::Connector;
use crate::suggestion::{did_you_mean, quoted_list};

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

    /// Adds a connector under its identifier, and returns the one that it replaces.
    pub fn register(&self, connector: Arc<dyn Connector>) -> Option<Arc<dyn Connector>> {
        let identifier = connector.identifier().to_owned();
        self.connectors
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(identifier, connector)
    }

    /// Finds the connector that is to make the table; the error lists the known ones.
    pub fn get(&self, identifier: &str, table: &TableReference) -> Result<Arc<dyn Connector>> {
        let connectors = self
            .connectors
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(connector) = connectors.get(identifier) else {
            let known = || connectors.keys().map(String::as_str);
            return config_err!(
                "unknown connector '{identifier}' for table '{table}'{}; expected one of: {}",
                did_you_mean(identifier, known()),
                quoted_list(known())
            );
        };
        Ok(Arc::clone(connector))
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
            "Invalid or Unsupported Configuration: unknown connector 'filesytem' for table 'sales' \
             (did you mean 'filesystem'?); expected one of: 'filesystem', 'memory'"
        );
    }

    #[test]
    fn empty_registry_says_that_there_are_none() {
        let error = registry(&[]).get("x", &table()).unwrap_err().to_string();
        assert!(error.ends_with("expected one of: none"), "{error}");
    }

    #[test]
    fn register_returns_the_replaced_connector() {
        let registry = registry(&["a"]);
        assert!(registry.register(Arc::new(Named("b"))).is_none());
        assert!(registry.register(Arc::new(Named("a"))).is_some());
        assert_eq!(registry.identifiers(), ["a", "b"]);
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
            registry.register(Arc::new(Named(identifier)));
        }
        registry
    }

    fn table() -> TableReference {
        TableReference::bare("sales")
    }
}
