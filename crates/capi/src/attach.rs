//! What a program says when it attaches.

use std::ffi::c_char;
use std::path::Path;

use zsr::{Cancel, Contact, Options, ProgramError, Schema};

use crate::cancel::zsr_cancel;
use crate::fault::{Fault, invalid};
use crate::general::ZSR_ABI_VERSION;
use crate::handle::{at, check, text};
use crate::status::zsr_status::*;

/// What a program says when it attaches. Begin with ZSR_OPTIONS_INIT, which sets `size` and `abi`, and set what is to be
/// otherwise. Nothing of it is needed after the call.
#[repr(C)]
pub struct zsr_options {
    /// sizeof(zsr_options).
    pub size: usize,
    /// ZSR_ABI_VERSION.
    pub abi: u32,
    /// Bytes of each record; 0: those of the flow's schema, or records differ in length.
    pub record_size: u32,
    /// Name of the system on this machine; NULL: the only one that is up.
    pub system: *const c_char,
    /// HOST:PORT of a controller elsewhere (`zsr up --listen`); NULL: that of `system`. The rings are on this machine in any case.
    pub controller: *const c_char,
    /// Which member of the flow to be; NULL: the first one whose rings are free.
    pub member: *const c_char,
    /// What the program takes the records for, as `id: u64, price: f64`; the attach fails if the flow's schema is another.
    /// NULL: whatever the flow says they are.
    pub schema: *const c_char,
    /// Ends blocking calls of the handle; NULL: nothing does.
    pub cancel: *const zsr_cancel,
    /// File of the certificate that a controller elsewhere wants to see (NAME.pem, with NAME.key and ca.pem beside it; `zsr ca`). NULL: there
    /// is none, which a `controller` on this machine, such as at the end of a tunnel, takes.
    pub certificate: *const c_char,
}

/// The longest struct that a later zsr.h may have.
const LONGEST: usize = 4096;

/// Where the controller is, and what the program says.
pub(crate) struct Attach {
    pub(crate) contact: Contact,
    pub(crate) options: Options,
}

/// Reads the options.
///
/// # Safety
/// `options` is null, or points to as many bytes as its first word says; texts in it end with a zero byte.
pub(crate) unsafe fn read(options: *const zsr_options) -> Result<Attach, Fault> {
    if options.is_null() {
        let contact = Contact::find(None, None, None).map_err(ProgramError::from)?;
        return Ok(Attach { contact, options: Options::default() });
    }
    check(options, "options")?;
    // SAFETY: its size is its first word, which is there whatever the version.
    let size = unsafe { options.cast::<usize>().read() };
    let known = size_of::<zsr_options>();
    if size < known || size > LONGEST {
        let text = format!(
            "options.size is {size}, expected {known}: begin with ZSR_OPTIONS_INIT of the zsr.h that came with this library"
        );
        return Err(Fault { status: ZSR_ERROR_ABI, text });
    }
    // SAFETY: so many bytes are there, by `size`.
    let behind = unsafe { std::slice::from_raw_parts(options.cast::<u8>().add(known), size - known) };
    // SAFETY: checked above.
    let o = unsafe { at(options, "options") }?;
    if o.abi != ZSR_ABI_VERSION || behind.iter().any(|b| *b != 0) {
        let text = format!(
            "the program was compiled with a zsr.h of ABI version {} that this library of version {ZSR_ABI_VERSION} does not know: \
             compile it with the zsr.h that came with this library",
            o.abi
        );
        return Err(Fault { status: ZSR_ERROR_ABI, text });
    }
    // SAFETY: texts, by contract.
    let (system, controller) =
        unsafe { (text(o.system, "options.system")?, text(o.controller, "options.controller")?) };
    // SAFETY: as above.
    let (member, schema) = unsafe { (text(o.member, "options.member")?, text(o.schema, "options.schema")?) };
    let cancel = match o.cancel.is_null() {
        true => Cancel::new(),
        // SAFETY: a cancel that was not freed, by contract.
        false => unsafe { at(o.cancel, "options.cancel") }?.0.clone(),
    };
    // SAFETY: as above.
    let certificate = unsafe { text(o.certificate, "options.certificate") }?.map(Path::new);
    let schema = schema.map(Schema::parse).transpose();
    let options = Options {
        member: member.map(str::to_owned),
        record_size: Some(o.record_size).filter(|size| *size > 0),
        schema: schema.map_err(|e| invalid(format!("options.schema: {e}")))?,
        cancel,
        ..Options::default()
    };
    // What makes no sense is said before what is not there.
    let contact = Contact::find(controller, certificate, system).map_err(ProgramError::from)?;
    Ok(Attach { contact, options })
}
