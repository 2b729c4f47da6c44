//! `zsr up`, `down`, `status`, and the processes of a system.

use super::doors::{self, DoorError, Doors};
use super::live_args::{ControllerArgs, DownArgs, RoleArgs, StatusArgs, UpArgs};
use super::{FAILED, OK, USAGE, complain, dash, json, print, tables};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use zsr::{
    Place, PlaceError, Session,
    lock::{Holder, Lock},
};
use zsr_api::controller as proto;
use zsr_system::process::{self, Down, Log, Role, UpError};
use zsr_topology::{Layout, Topology};

/// `zsr up`.
pub(super) fn up(args: &UpArgs) -> u8 {
    let Ok(mut topology) = load(&args.topology) else { return USAGE };
    let laid_out = args.layout().and_then(|layout| topology.lay_out(&layout).map(|()| layout));
    let layout = match laid_out {
        Ok(layout) => layout,
        Err(e) => {
            complain(format_args!("error: {e}"));
            return USAGE;
        }
    };
    let page = match args.dash.map(|at| Doors::new(Some(at), None)).transpose() {
        Ok(page) => page,
        Err(e) => return doors::exit(Err(e)),
    };
    let name = args.system.clone().unwrap_or_else(|| topology.name.clone());
    let tell = |text: &str| complain(text);
    let interrupted = Arc::new(AtomicBool::new(false));
    let by_signal = interrupted.clone();
    if let Err(e) = ctrlc::set_handler(move || by_signal.store(true, Ordering::Relaxed)) {
        complain(format_args!("error: cannot catch signals: {e}"));
        return FAILED;
    }
    let how = process::Up {
        topology: &topology,
        layout: &layout,
        artifacts: args.artifacts.as_deref(),
        log: &args.log.log(),
        flows: !args.no_flows,
        interrupted: &interrupted,
        tell: &tell,
    };
    match process::up(&name, &how) {
        Ok(place) => {
            print(&format!("system {name} is up in {}\n", place.folder().display()));
            page.map_or(OK, |doors| show(doors, &place))
        }
        Err(e) => {
            complain(format_args!("error: {e}"));
            let is_usage = matches!(e, UpError::Flow { .. } | UpError::Place(PlaceError::Name { .. }));
            if is_usage { USAGE } else { FAILED }
        }
    }
}

/// Serves the page of a system that has just come up, which outlives the page.
fn show(doors: Doors<'_>, place: &Place) -> u8 {
    doors::exit(Session::open(place).map_err(DoorError::from).and_then(|session| dash::serve(doors, session)))
}

/// `zsr down`.
pub(super) fn down(args: &DownArgs) -> u8 {
    let named = match args.named() {
        Ok(named) => named,
        Err(e) => {
            complain(format_args!("error: {e}"));
            return USAGE;
        }
    };
    let ended = Place::find(named)
        .map_err(process::DownError::from)
        .and_then(|place| process::down(&place, &Down::default(), &|text| complain(text)).map(|()| place));
    match ended {
        Ok(place) => {
            print(&format!("system {} is down\n", place.name()));
            OK
        }
        Err(e) => {
            complain(format_args!("error: {e}"));
            FAILED
        }
    }
}

/// `zsr status`.
pub(super) fn status(args: &StatusArgs) -> u8 {
    let place = match Place::find(args.system.system.as_deref()) {
        Ok(place) => place,
        Err(e) => {
            complain(format_args!("error: {e}"));
            return FAILED;
        }
    };
    let alive = |process: String| {
        let pid = match Lock::holder(&place.pid(&process)) {
            Holder::Process(pid) => Some(pid),
            Holder::Nobody => None,
        };
        (process, pid)
    };
    let processes: Vec<_> = place.processes().into_iter().map(alive).collect();
    let system = Session::open(&place).and_then(|s| {
        s.telling().call(|mut c| async move { c.get_system(proto::GetSystemRequest {}).await })
    });
    let why = system.as_ref().err().map(ToString::to_string);
    let system = system.as_ref().ok();
    print(&match args.json.json {
        true => json::one(&json::status(place.name(), &processes, system)),
        false => tables::status(place.name(), &processes, system, args.wide.room()),
    });
    if let Some(why) = why {
        complain(format_args!("error: {why}"));
    }
    let well = system.is_some() && processes.iter().all(|(_, pid)| pid.is_some());
    if well { OK } else { FAILED }
}

/// `zsr controller`. The address on which it listens, and the place of its journal, are noted for its successors.
pub(super) fn controller(args: &ControllerArgs) -> u8 {
    let (listen, journal) = (args.listen.listen, args.journal.file());
    if listen.is_some() || journal.is_some() {
        let Ok(topology) = load(&args.role.topology) else { return USAGE };
        if let Some(Err(e)) = listen.map(|listen| topology.may_listen("the controller", listen)) {
            complain(format_args!("error: {e}"));
            return USAGE;
        }
        let noted = Place::make(args.role.system.as_deref().unwrap_or(&topology.name)).and_then(|place| {
            // One that runs keeps what it was told, and this one is refused below.
            if Lock::holder(&place.pid(&Role::Controller.process())) != Holder::Nobody {
                return Ok(());
            }
            let layout = process::read_layout(&place)?.unwrap_or_default();
            let (listen, journal) = (listen.or(layout.listen), journal.or(layout.journal.clone()));
            process::write_layout(&place, &Layout { listen, journal, ..layout })
        });
        if let Err(e) = noted {
            complain(format_args!("error: {e}"));
            return FAILED;
        }
    }
    role(&args.role, Role::Controller, args.artifacts.as_deref())
}

/// `zsr switch`, `zsr agent`, `zsr controller`: runs until it is told to end.
pub(super) fn role(args: &RoleArgs, role: Role, artifacts: Option<&Path>) -> u8 {
    let Ok(topology) = load(&args.topology) else { return USAGE };
    let name = args.system.clone().unwrap_or_else(|| topology.name.clone());
    let log = args.log.log();
    if args.daemon && !args.ready {
        return in_background(&name, topology, &role, artifacts, &log);
    }
    log.start();
    if args.ready {
        // Fails only where the process leads a session already.
        let _ = rustix::process::setsid();
    }
    let (stop, stopped) = tokio::sync::watch::channel(false);
    if let Err(e) = ctrlc::set_handler(move || {
        stop.send_replace(true);
    }) {
        complain(format_args!("error: cannot catch signals: {e}"));
        return FAILED;
    }
    let ready = || match args.ready {
        true => {
            // The caller that started this process waits for the line; then the process is on its own.
            let mut out = std::io::stdout().lock();
            let _ = out.write_all(b"ready\n").and_then(|()| out.flush());
            if let Ok(null) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
                let _ = rustix::stdio::dup2_stdout(null);
            }
        }
        false => {
            process::tell(&format!("{} of system {name} is ready", role.process()));
            // For a unit of Type=notify; nobody listens otherwise.
            let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
        }
    };
    let run = Place::make(&name)
        .map_err(process::RoleError::from)
        .and_then(|place| process::run(&role, &place, &topology, artifacts, &log, stopped, ready));
    match run {
        Ok(()) => OK,
        Err(e) => {
            log.failed(&e);
            use process::RoleError as E;
            match e {
                E::NoHost(_) | E::NoStandby(_) | E::Switches(_) | E::Place(PlaceError::Name { .. }) => USAGE,
                _ => FAILED,
            }
        }
    }
}

/// Starts a process of system `name`, and leaves it to itself once it is ready.
fn in_background(name: &str, topology: Topology, role: &Role, artifacts: Option<&Path>, log: &Log) -> u8 {
    let process = role.process();
    match start(name, topology, role, artifacts, log) {
        Ok(place) => {
            let log = place.log(&process);
            print(&format!(
                "{process} of system {name} runs in the background; its log is {}\n",
                log.display()
            ));
            OK
        }
        Err(e) => {
            complain(format_args!("error: {e}"));
            FAILED
        }
    }
}

fn start(
    name: &str,
    mut topology: Topology,
    role: &Role,
    artifacts: Option<&Path>,
    log: &Log,
) -> Result<Place, String> {
    let place = Place::make(name).map_err(|e| e.to_string())?;
    let layout = process::read_layout(&place).map_err(|e| e.to_string())?.unwrap_or_default();
    topology.lay_out(&layout)?;
    let (netns, interrupted) = (layout.netns, &AtomicBool::new(false));
    let launch = process::Launch { place: &place, topology: &topology, netns, artifacts, log, interrupted };
    launch.start(role).map_err(|e| e.to_string())?;
    Ok(place)
}

fn load(path: &Path) -> Result<Topology, ()> {
    // Processes of the system have other working directories.
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    Topology::load(&path).map_err(complain)
}
