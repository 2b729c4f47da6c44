//! One connection to a controller for all flows of a process.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::contact::Contact;
use crate::session::{Carrier, Client};

struct Shared {
    contact: Contact,
    carrier: Weak<Carrier>,
    client: Client,
}

/// The connections of one process. They stay as long as it does.
struct Process {
    id: u32,
    all: Mutex<Vec<Shared>>,
}

static PROCESS: AtomicPtr<Process> = AtomicPtr::new(null_mut());

/// The connections of this process. A child of fork begins with none: it has none of the parent's threads, one of which may have had the
/// lock.
fn all() -> MutexGuard<'static, Vec<Shared>> {
    let id = std::process::id();
    let known = PROCESS.load(Ordering::Acquire);
    // SAFETY: what is there is never freed.
    let process = match unsafe { known.as_ref() } {
        Some(process) if process.id == id => process,
        _ => {
            let new = Box::into_raw(Box::new(Process { id, all: Mutex::default() }));
            match PROCESS.compare_exchange(known, new, Ordering::AcqRel, Ordering::Acquire) {
                // SAFETY: what is there is never freed.
                Ok(_) => unsafe { &*new },
                Err(first) => {
                    // SAFETY: another thread of this process was first, so nobody else has seen this one.
                    drop(unsafe { Box::from_raw(new) });
                    // SAFETY: what that thread has put there is never freed.
                    unsafe { &*first }
                }
            }
        }
    };
    process.all.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The connection that some session of this process has.
pub(crate) fn find(contact: &Contact) -> Option<(Arc<Carrier>, Client)> {
    let all = all();
    let mut of_contact = all.iter().filter(|s| s.contact == *contact);
    of_contact.find_map(|s| Some((s.carrier.upgrade()?, s.client.clone())))
}

/// Gives a connection to those who come later.
pub(crate) fn keep(contact: &Contact, carrier: &Arc<Carrier>, client: &Client) {
    let mut all = all();
    all.retain(|s| s.carrier.strong_count() > 0);
    all.push(Shared { contact: contact.clone(), carrier: Arc::downgrade(carrier), client: client.clone() });
}

/// Whoever comes later connects anew, and hears why if that fails.
pub(crate) fn forget(carrier: &Arc<Carrier>) {
    let mut all = all();
    all.retain(|s| !std::ptr::eq(s.carrier.as_ptr(), Arc::as_ptr(carrier)));
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::TcpListener;

    use crate::contact::Contact;
    use crate::session::{ClientError, Session};

    /// A controller that takes connections and never answers.
    fn listener() -> (TcpListener, Contact) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let contact = Contact::Address(listener.local_addr().unwrap().to_string());
        (listener, contact)
    }

    fn connections(listener: &TcpListener) -> usize {
        let accepted = |_: &usize| match listener.accept() {
            Err(e) if e.kind() == ErrorKind::WouldBlock => false,
            accepted => accepted.map(|_| true).unwrap(),
        };
        (0..9).take_while(accepted).count()
    }

    #[test]
    fn sessions_share_a_connection_until_the_last_of_them_ends() {
        let (listener, contact) = listener();
        let sessions = [(); 3].map(|()| Session::shared(&contact).unwrap());
        assert_eq!(connections(&listener), 1);
        let own = Session::open(&contact).unwrap();
        assert_eq!(connections(&listener), 1);
        drop((sessions, own));
        let _later = Session::shared(&contact).unwrap();
        assert_eq!(connections(&listener), 1);
    }

    #[test]
    fn a_connection_that_was_lost_is_not_shared_any_more() {
        let (listener, contact) = listener();
        let session = Session::shared(&contact).unwrap();
        drop(listener.accept().unwrap());
        drop(listener);
        let why = crate::flow::get(&session, "f").unwrap_err();
        assert!(matches!(why, ClientError::Lost(_)), "{why}");
        let why = Session::shared(&contact).err().expect("nobody listens");
        assert!(matches!(why, ClientError::Unreachable { .. }), "{why}");
    }

    #[test]
    fn a_child_of_fork_has_its_own() {
        let program = std::env::current_exe().unwrap();
        let forks = ["--ignored", "--exact", "shared::tests::forks"];
        let done = std::process::Command::new(program).args(forks).output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success() && said.contains("1 passed"), "{said}");
    }

    #[test]
    #[ignore = "its child has all that other tests have open: a_child_of_fork_has_its_own runs it alone"]
    fn forks() {
        let (listener, contact) = listener();
        let _session = Session::shared(&contact).unwrap();
        assert_eq!(connections(&listener), 1);
        // As some thread of the parent may at that moment.
        let locked = super::all();
        // SAFETY: the child only does what programs in Python that fork do, and ends without running what the parent has to run.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: always. It ends a child that waits for ever.
            unsafe { libc::alarm(20) };
            let is_open = Session::shared(&contact).is_ok();
            // SAFETY: always.
            unsafe { libc::_exit(i32::from(!is_open)) }
        }
        drop(locked);
        let mut status = 0;
        // SAFETY: a child of ours, and a place for its status.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status}");
        assert_eq!(connections(&listener), 1);
    }
}
