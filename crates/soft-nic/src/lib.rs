//! A RoCEv2 RC NIC in user space over registered memory. Knows nothing of rings or flows.
