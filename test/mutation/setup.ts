import fc from 'fast-check'

// That a law fails suffices: nobody reads its smallest case.
fc.configureGlobal({ ...fc.readConfigureGlobal(), endOnFailure: true })
