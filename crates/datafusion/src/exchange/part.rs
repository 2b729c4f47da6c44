//! Which partition a batch belongs to. One flow carries several, so a batch travels with a last column that has one number in one run: some
//! bytes per batch, not per row. A batch without columns of its own keeps its number of rows by it, too.

use std::sync::Arc;

use arrow::array::{Array, Int32Array, RecordBatch, RecordBatchOptions, RunArray, UInt32Array};
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use arrow::error::ArrowError;

fn field() -> Field {
    let ends = Field::new("run_ends", DataType::Int32, false);
    let values = Field::new("values", DataType::UInt32, true);
    Field::new("", DataType::RunEndEncoded(Arc::new(ends), Arc::new(values)), false)
}

/// The schema that travels.
pub(crate) fn with_part(schema: &Schema) -> SchemaRef {
    let own = field();
    let fields = schema.fields().iter().cloned().chain([Arc::new(own)]);
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// The batch that travels. `schema` is what [`with_part`] made.
pub(crate) fn add(batch: &RecordBatch, part: u32, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let rows = i32::try_from(batch.num_rows()).map_err(|e| ArrowError::ExternalError(e.into()))?;
    let part = RunArray::<Int32Type>::try_new(&Int32Array::from(vec![rows]), &UInt32Array::from(vec![part]))?;
    let mut columns = batch.columns().to_vec();
    columns.push(Arc::new(part));
    RecordBatch::try_new(schema.clone(), columns)
}

/// The partition, and the batch as it was.
pub(crate) fn take(batch: &RecordBatch) -> Result<(u32, RecordBatch), ArrowError> {
    let other = |what: &str| ArrowError::ParseError(format!("what came has {what}: it is not of a query"));
    let last = batch.num_columns().checked_sub(1).ok_or_else(|| other("no column"))?;
    let runs = batch.column(last).as_any().downcast_ref::<RunArray<Int32Type>>();
    let runs = runs.ok_or_else(|| other("no partition"))?;
    let values = runs.values().as_any().downcast_ref::<UInt32Array>().ok_or_else(|| other("no partition"))?;
    if batch.num_rows() == 0 {
        return Err(other("no row"));
    }
    let part = values.value(runs.get_physical_index(0));
    let fields = batch.schema_ref().fields();
    let schema = Schema::new_with_metadata(fields[..last].to_vec(), batch.schema_ref().metadata().clone());
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = batch.columns()[..last].to_vec();
    Ok((part, RecordBatch::try_new_with_options(Arc::new(schema), columns, &options)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_comes_back_also_a_slice_and_one_without_columns() {
        let ids = Arc::new(Int32Array::from(vec![1, 2, 3])) as _;
        let batch = RecordBatch::try_from_iter([("id", ids)]).unwrap();
        let none = batch.project(&[]).unwrap();
        for batch in [batch.slice(1, 2), none] {
            let sent = add(&batch, 7, &with_part(batch.schema_ref())).unwrap();
            assert_eq!(take(&sent).unwrap(), (7, batch.clone()));
            let half = sent.slice(1, 1);
            assert_eq!(take(&half).unwrap(), (7, batch.slice(1, 1)));
        }
    }
}
