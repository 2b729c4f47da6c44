//! The tables of TPC-H, made by tpchgen where they are read: each task of a stage makes its part, and the worker keeps it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, exec_datafusion_err, internal_datafusion_err, internal_err};
use datafusion::datasource::TableType;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, StatisticsArgs,
};
use datafusion::prelude::SessionContext;
use datafusion_distributed::DistributedTaskContext;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use futures::StreamExt;
use prost::Message;
use tpchgen::generators as of;
use tpchgen_arrow as arrow_of;

/// A table of TPC-H.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Table {
    Region,
    Nation,
    Supplier,
    Customer,
    Part,
    PartSupp,
    Orders,
    LineItem,
}

impl Table {
    /// All eight tables.
    pub const ALL: [Table; 8] = [
        Table::Region,
        Table::Nation,
        Table::Supplier,
        Table::Customer,
        Table::Part,
        Table::PartSupp,
        Table::Orders,
        Table::LineItem,
    ];

    /// The table's name in queries.
    pub const fn name(self) -> &'static str {
        match self {
            Table::Region => "region",
            Table::Nation => "nation",
            Table::Supplier => "supplier",
            Table::Customer => "customer",
            Table::Part => "part",
            Table::PartSupp => "partsupp",
            Table::Orders => "orders",
            Table::LineItem => "lineitem",
        }
    }

    /// The table's columns.
    pub fn schema(self) -> SchemaRef {
        match self {
            Table::Region => arrow_of::RegionArrow::schema_ref(),
            Table::Nation => arrow_of::NationArrow::schema_ref(),
            Table::Supplier => arrow_of::SupplierArrow::schema_ref(),
            Table::Customer => arrow_of::CustomerArrow::schema_ref(),
            Table::Part => arrow_of::PartArrow::schema_ref(),
            Table::PartSupp => arrow_of::PartSuppArrow::schema_ref(),
            Table::Orders => arrow_of::OrderArrow::schema_ref(),
            Table::LineItem => arrow_of::LineItemArrow::schema_ref(),
        }
    }

    /// About how many rows it has.
    fn rows(self, scale: f64) -> usize {
        let base = match self {
            Table::Region => return 5,
            Table::Nation => return 25,
            Table::Supplier => 10_000.0,
            Table::Customer => 150_000.0,
            Table::Part => 200_000.0,
            Table::PartSupp => 800_000.0,
            Table::Orders => 1_500_000.0,
            Table::LineItem => 6_001_215.0,
        };
        (base * scale) as usize
    }

    /// Part `part`, from 0, of `parts`. Takes as long as that takes to compute.
    ///
    /// # Errors
    /// None that is known.
    pub fn batches(self, scale: f64, part: usize, parts: usize) -> Result<Vec<RecordBatch>> {
        let number =
            |n: usize| i32::try_from(n).map_err(|e| exec_datafusion_err!("{n} parts of a table: {e}"));
        let (i, n) = (number(part + 1)?, number(parts)?);
        // The two that have the same rows at every scale are not divided by tpchgen.
        if matches!(self, Table::Region | Table::Nation) && part > 0 {
            return Ok(Vec::new());
        }
        macro_rules! batches {
            ($arrow:ident, $generator:ident) => {
                arrow_of::$arrow::new(of::$generator::new(scale, i, n)).collect::<Result<Vec<_>, _>>()
            };
        }
        Ok(match self {
            Table::Region => batches!(RegionArrow, RegionGenerator),
            Table::Nation => batches!(NationArrow, NationGenerator),
            Table::Supplier => batches!(SupplierArrow, SupplierGenerator),
            Table::Customer => batches!(CustomerArrow, CustomerGenerator),
            Table::Part => batches!(PartArrow, PartGenerator),
            Table::PartSupp => batches!(PartSuppArrow, PartSuppGenerator),
            Table::Orders => batches!(OrderArrow, OrderGenerator),
            Table::LineItem => batches!(LineItemArrow, LineItemGenerator),
        }?)
    }
}

/// Registers all eight tables. A plan reads each in `partitions` parts per task.
///
/// # Errors
/// Names that are taken.
pub fn register(context: &SessionContext, scale: f64, partitions: usize) -> Result<()> {
    for table in Table::ALL {
        let provider = Provider(Scan::new(table, scale, partitions, None)?);
        context.register_table(table.name(), Arc::new(provider))?;
    }
    Ok(())
}

#[derive(Debug)]
struct Provider(Scan);

#[async_trait]
impl TableProvider for Provider {
    fn schema(&self) -> SchemaRef {
        self.0.table.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Scan { table, scale, partitions, .. } = self.0;
        Ok(Arc::new(Scan::new(table, scale, partitions, projection.cloned())?))
    }
}

/// The leaf of a plan that reads a table.
#[derive(Clone, Debug)]
struct Scan {
    table: Table,
    scale: f64,
    partitions: usize,
    columns: Option<Vec<usize>>,
    properties: Arc<PlanProperties>,
}

impl Scan {
    fn new(table: Table, scale: f64, partitions: usize, columns: Option<Vec<usize>>) -> Result<Self> {
        let schema = match &columns {
            Some(columns) => Arc::new(table.schema().project(columns)?),
            None => table.schema(),
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Scan { table, scale, partitions, columns, properties: Arc::new(properties) })
    }
}

impl DisplayAs for Scan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.properties.equivalence_properties().schema().clone();
        let columns: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "TpchScan: {} at scale {}, columns=[{}]", self.table.name(), self.scale, columns.join(", "))
    }
}

impl ExecutionPlan for Scan {
    fn name(&self) -> &str {
        "TpchScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let rows = self.table.rows(self.scale);
        let parts = if args.partition().is_some() { self.partitions } else { 1 };
        let unknown = Statistics::new_unknown(&self.schema());
        Ok(Arc::new(unknown.with_num_rows(Precision::Inexact(rows / parts))))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let task = DistributedTaskContext::from_ctx(&context);
        let key = Key {
            table: self.table,
            scale: self.scale.to_bits(),
            part: task.task_index * self.partitions + partition,
            parts: task.task_count * self.partitions,
        };
        let columns = self.columns.clone();
        let project = move |batch: &RecordBatch| match &columns {
            Some(columns) => Ok(batch.project(columns)?),
            None => Ok(batch.clone()),
        };
        let batches = async move {
            // Computing them takes long.
            let kept = tokio::task::spawn_blocking(move || kept(key)).await;
            let kept = kept.map_err(|e| exec_datafusion_err!("making a table: {e}"))??;
            let batches: Vec<_> = kept.iter().map(project).collect();
            Ok::<_, datafusion::error::DataFusionError>(futures::stream::iter(batches))
        };
        let stream = futures::stream::once(batches).flat_map(|batches| match batches {
            Ok(batches) => batches.boxed(),
            Err(e) => futures::stream::once(async { Err(e) }).boxed(),
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    table: Table,
    scale: u64,
    part: usize,
    parts: usize,
}

type Kept = Arc<OnceLock<Result<Vec<RecordBatch>, String>>>;

/// A part of a table, made once.
fn kept(key: Key) -> Result<Vec<RecordBatch>> {
    static PARTS: LazyLock<Mutex<HashMap<Key, Kept>>> = LazyLock::new(Mutex::default);
    let kept = PARTS.lock().expect("no panic").entry(key).or_default().clone();
    let make =
        || key.table.batches(f64::from_bits(key.scale), key.part, key.parts).map_err(|e| e.to_string());
    kept.get_or_init(make).clone().map_err(|e| exec_datafusion_err!("table {}: {e}", key.table.name()))
}

/// How scans of these tables travel in plans. For `with_distributed_user_codec`, at the coordinator and at all workers.
#[derive(Debug)]
pub struct Codec;

#[derive(Clone, PartialEq, Message)]
struct ScanMessage {
    #[prost(string, tag = "1")]
    table: String,
    #[prost(double, tag = "2")]
    scale: f64,
    #[prost(uint64, tag = "3")]
    partitions: u64,
    #[prost(bool, tag = "4")]
    is_projected: bool,
    #[prost(uint64, repeated, tag = "5")]
    columns: Vec<u64>,
}

impl PhysicalExtensionCodec for Codec {
    fn try_decode(
        &self,
        bytes: &[u8],
        _: &[Arc<dyn ExecutionPlan>],
        _: &TaskContext,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let message = ScanMessage::decode(bytes).map_err(|e| internal_datafusion_err!("a scan: {e}"))?;
        let table = Table::ALL.into_iter().find(|table| table.name() == message.table);
        let table = table.ok_or_else(|| internal_datafusion_err!("no table {} in TPC-H", message.table))?;
        let columns = message.columns.iter().map(|column| *column as usize).collect();
        let columns = message.is_projected.then_some(columns);
        Ok(Arc::new(Scan::new(table, message.scale, message.partitions as usize, columns)?))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let Some(scan) = node.downcast_ref::<Scan>() else {
            return internal_err!("{} is no scan of a table of TPC-H", node.name());
        };
        let columns = scan.columns.as_deref().unwrap_or_default();
        let message = ScanMessage {
            table: scan.table.name().to_owned(),
            scale: scan.scale,
            partitions: scan.partitions as u64,
            is_projected: scan.columns.is_some(),
            columns: columns.iter().map(|column| *column as u64).collect(),
        };
        message.encode(bytes).map_err(|e| internal_datafusion_err!("a scan: {e}"))
    }
}
