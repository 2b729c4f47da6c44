//! `zsr._zsr`: the crate `zsr` for Python. The package's own classes, in `zsr/`, are made of these.

mod combiner;
mod consumer;
mod errors;
mod layout_consumer;
mod layouts;
mod options;
mod place;
mod producer;
mod streams;

use pyo3::prelude::*;

#[pymodule]
fn _zsr(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<producer::Producer>()?;
    module.add_class::<producer::Ticket>()?;
    module.add_class::<place::Place>()?;
    module.add_class::<layouts::Registered>()?;
    module.add_class::<layout_consumer::LayoutConsumer>()?;
    module.add_class::<consumer::Consumer>()?;
    module.add_class::<consumer::Held>()?;
    module.add_class::<combiner::Combiner>()?;
    module.add_class::<streams::StreamProducer>()?;
    module.add_class::<streams::Outgoing>()?;
    module.add_class::<streams::StreamConsumer>()?;
    module.add_class::<streams::Incoming>()?;
    module.add_function(wrap_pyfunction!(options::barrier, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
