//! The tables by name, each with its generator.

use datafusion::common::plan_datafusion_err;
use datafusion::error::Result;
use tpcdsgen_arrow::{
    CallCenterArrow, CatalogPageArrow, CatalogReturnsArrow, CatalogSalesArrow,
    CustomerAddressArrow, CustomerArrow, CustomerDemographicsArrow, DateDimArrow,
    HouseholdDemographicsArrow, IncomeBandArrow, InventoryArrow, ItemArrow, PromotionArrow,
    ReasonArrow, ShipModeArrow, StoreArrow, StoreReturnsArrow, StoreSalesArrow, TimeDimArrow,
    WarehouseArrow, WebPageArrow, WebReturnsArrow, WebSalesArrow, WebSiteArrow,
};

use super::TpcdsTable;

macro_rules! table {
    ($name:literal, $generator:ident, $date_key:expr) => {
        TpcdsTable {
            name: $name,
            date_key: $date_key,
            source_rows: None,
            generate: |session, rows| {
                let generator = $generator::new(session);
                Box::new(match rows {
                    Some((first, last)) => generator.with_source_row_range(first, last),
                    None => generator,
                })
            },
        }
    };
}

impl TpcdsTable {
    /// All of them, dimensions first.
    pub const ALL: [Self; 24] = [
        table!("call_center", CallCenterArrow, None),
        table!("catalog_page", CatalogPageArrow, None),
        table!("customer", CustomerArrow, None),
        table!("customer_address", CustomerAddressArrow, None),
        table!("customer_demographics", CustomerDemographicsArrow, None),
        table!("date_dim", DateDimArrow, None),
        table!("household_demographics", HouseholdDemographicsArrow, None),
        table!("income_band", IncomeBandArrow, None),
        table!("item", ItemArrow, None),
        table!("promotion", PromotionArrow, None),
        table!("reason", ReasonArrow, None),
        table!("ship_mode", ShipModeArrow, None),
        table!("store", StoreArrow, None),
        table!("time_dim", TimeDimArrow, None),
        table!("warehouse", WarehouseArrow, None),
        table!("web_page", WebPageArrow, None),
        table!("web_site", WebSiteArrow, None),
        table!("store_sales", StoreSalesArrow, Some("ss_sold_date_sk")),
        table!(
            "store_returns",
            StoreReturnsArrow,
            Some("sr_returned_date_sk")
        ),
        table!("catalog_sales", CatalogSalesArrow, Some("cs_sold_date_sk")),
        table!(
            "catalog_returns",
            CatalogReturnsArrow,
            Some("cr_returned_date_sk")
        ),
        table!("web_sales", WebSalesArrow, Some("ws_sold_date_sk")),
        table!("web_returns", WebReturnsArrow, Some("wr_returned_date_sk")),
        table!("inventory", InventoryArrow, Some("inv_date_sk")),
    ];

    /// The table of this name.
    pub fn named(name: &str) -> Result<Self> {
        let table = Self::ALL.into_iter().find(|table| table.name == name);
        table.ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|table| table.name).collect();
            plan_datafusion_err!(
                "unknown TPC-DS table '{name}'; expected one of: {}",
                known.join(", ")
            )
        })
    }
}
