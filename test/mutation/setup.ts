import fc from 'fast-check'
import { beforeEach } from 'vitest'

/** Hold in workerd, where no request waits for the call of another. */
const ONLY_IN_WORKERS = ['Leases replenish before the permits have run out, and count those on their way']

beforeEach(({ task, skip }) => {
  if (ONLY_IN_WORKERS.includes(task.name)) skip()
})

// That a law fails suffices: nobody reads its smallest case.
fc.configureGlobal({ ...fc.readConfigureGlobal(), endOnFailure: true })
