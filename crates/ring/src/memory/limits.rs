//! How much memory can be had before the kernel starts killing processes.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes that new memory may take: what the kernel says is available, and what the control groups of this
/// process leave. `None` where neither can be read.
pub(super) fn available() -> Option<u64> {
    let system = fs::read_to_string("/proc/meminfo").ok().as_deref().and_then(mem_available);
    let group = fs::read_to_string("/proc/self/cgroup").ok().as_deref().and_then(group_of);
    let group = group.and_then(|path| group_room(Path::new("/sys/fs/cgroup"), &path));
    match (system, group) {
        (Some(system), Some(group)) => Some(system.min(group)),
        (one, other) => one.or(other),
    }
}

/// `MemAvailable` of /proc/meminfo, in bytes.
fn mem_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim_end().parse::<u64>().ok()?.checked_mul(1024)
}

/// The path of the version 2 control group in /proc/self/cgroup.
fn group_of(cgroup: &str) -> Option<PathBuf> {
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(PathBuf::from(path))
}

/// The least room that the group at `path` or one of those above it has left.
fn group_room(root: &Path, path: &Path) -> Option<u64> {
    path.ancestors().filter_map(|group| room(&root.join(group))).min()
}

/// What one group has left: its limit less what it uses, not counting file pages that can be dropped.
fn room(group: &Path) -> Option<u64> {
    let number = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    // "max" where there is no limit.
    let limit = number("memory.max")?;
    let used = number("memory.current")?;
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let droppable = stat
        .lines()
        .find_map(|line| line.strip_prefix("inactive_file "))
        .and_then(|bytes| bytes.trim().parse::<u64>().ok())
        .unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(droppable)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_writes() {
        let meminfo = "MemTotal:       16384000 kB\nMemFree:         1000 kB\nMemAvailable:    2048 kB\n";
        assert_eq!(mem_available(meminfo), Some(2048 * 1024));
        assert_eq!(mem_available("MemTotal: 1 kB\n"), None);
        assert_eq!(mem_available("MemAvailable: many kB\n"), None);
        assert_eq!(group_of("1:cpu:/x\n0::/a/b\n"), Some(PathBuf::from("a/b")));
        assert_eq!(group_of("0::/\n"), Some(PathBuf::new()));
        assert_eq!(group_of("4:memory:/x\n"), None);
    }

    #[test]
    fn the_tightest_group_above_counts() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let write = |group: &str, name: &str, text: &str| {
            let folder = root.path().join(group);
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join(name), text).expect("a file");
        };
        write("a", "memory.max", "1000\n");
        write("a", "memory.current", "900\n");
        write("a", "memory.stat", "anon 1\ninactive_file 250\n");
        write("a/b", "memory.max", "max\n");
        write("a/b", "memory.current", "800\n");
        assert_eq!(group_room(root.path(), Path::new("a/b")), Some(350));
        write("a/b", "memory.max", "810\n");
        assert_eq!(group_room(root.path(), Path::new("a/b")), Some(10));
        assert_eq!(group_room(root.path(), Path::new("c")), None);
    }
}
