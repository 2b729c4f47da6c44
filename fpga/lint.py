"""slang's view of the sources: lint.py FILE..."""

import sys

import pyslang

driver = (getattr(pyslang, "Driver", None) or pyslang.driver.Driver)()
driver.addStandardArgs()
ok = driver.parseCommandLine("slang -Wextra -Wconversion -Werror --std 1800-2017 " + " ".join(sys.argv[1:]))
ok = ok and driver.processOptions() and driver.parseAllSources()
if ok:
    driver.reportCompilation(driver.createCompilation(), False)
    ok = driver.reportDiagnostics(False)
sys.exit(not ok)
