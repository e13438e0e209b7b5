import fc from 'fast-check'
import { inject } from 'vitest'

// Every law draws its cases from the one seed of the run.
fc.configureGlobal({ seed: inject('fuzz').seed })
