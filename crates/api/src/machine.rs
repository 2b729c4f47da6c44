//! Which machine a process runs on: rings are shared memory, so a program has to run where the agent does.

/// A machine, as its kernel names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The machine's host name, for people.
    pub name: String,
    /// A number of this boot of its kernel, which no other machine has.
    pub boot: String,
}

impl Machine {
    /// The machine of this process. Values that the kernel does not tell are empty.
    pub fn this() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).map_or(String::new(), |t| t.trim().to_owned());
        Machine { name: read("/proc/sys/kernel/hostname"), boot: read("/proc/sys/kernel/random/boot_id") }
    }
}
