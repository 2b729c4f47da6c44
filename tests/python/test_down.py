"""The system goes down while a program waits. Last: there is none after it."""
import os, subprocess, threading

import pytest
import zsr


def test_zsr_down_ends_a_call_that_waits():
    subprocess.run([os.environ["ZSR"], "flow", "create", "last", "-p", "h1", "-c", "h2"], check=True, capture_output=True)
    consumer, waiting = zsr.Consumer("last"), threading.Event()

    def down():
        waiting.wait()
        subprocess.run([os.environ["ZSR"], "down"], check=True, capture_output=True)

    thread = threading.Thread(target=down)
    thread.start()
    waiting.set()
    with pytest.raises(zsr.Ended, match="flow `last`"):
        consumer.pop()
    thread.join()
    with pytest.raises(zsr.NotFound, match="no system is up; start one with: zsr up"):
        zsr.Producer("last")
