//! Handles of processes (pidfds), which are opened while a process lives and queried for its exit afterwards.
//! The only file that contains `unsafe`.

#![allow(
    unsafe_code,
    reason = "no dependency has the ioctl PIDFD_GET_INFO; the call carries the proof"
)]

use std::io;
use std::os::fd::OwnedFd;

pub(super) use imp::{exit_status, open};

#[cfg(target_os = "linux")]
mod imp {
    use rustix::ioctl::{Updater, ioctl, opcode};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    use super::{OwnedFd, io};

    /// `struct pidfd_info` of `linux/pidfd.h` in its first size, 64 bytes, which every kernel that
    /// knows the request takes.
    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    struct PidfdInfo {
        /// The requested fields; after the call, the fields of the answer.
        mask: u64,
        cgroup: u64,
        /// pid, tgid, ppid, and the user and group ids.
        ids: [u32; 11],
        /// The status of wait(2).
        exit_code: i32,
    }

    const _: () = assert!(
        size_of::<PidfdInfo>() == 64,
        "the size is part of the request"
    );

    /// `PIDFD_INFO_EXIT`.
    const EXIT: u64 = 1 << 3;

    /// Opens a process.
    ///
    /// # Errors
    /// When the process does not exist, no descriptor is left, or the system is not Linux.
    pub fn open(pid: u32) -> io::Result<OwnedFd> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(pidfd_open(pid, PidfdFlags::empty())?)
    }

    /// Returns the status of wait(2) of a process that was reaped. Kernels before Linux 6.15 have no such
    /// information.
    pub fn exit_status(pidfd: &OwnedFd) -> Option<i32> {
        let mut info = PidfdInfo {
            mask: EXIT,
            ..PidfdInfo::default()
        };
        // SAFETY: the request reads and writes one `struct pidfd_info` of the size that the opcode
        // carries, 64 bytes, and `PidfdInfo` has that layout: `repr(C)`, no padding, every bit pattern is
        // valid in each field. A descriptor that is no pidfd, and a kernel without the request,
        // refuse it and write nothing.
        let answer = unsafe {
            // `PIDFD_GET_INFO`.
            ioctl(
                pidfd,
                Updater::<{ opcode::read_write::<PidfdInfo>(0xff, 11) }, _>::new(&mut info),
            )
        };
        // Until a process is reaped, kernels with this information return ESRCH, or answer without it.
        // So do kernels from 6.13 on, which never have it.
        (answer.is_ok() && info.mask & EXIT != 0).then_some(info.exit_code)
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use super::{OwnedFd, io};

    pub fn open(_pid: u32) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub fn exit_status(_pidfd: &OwnedFd) -> Option<i32> {
        None
    }
}
