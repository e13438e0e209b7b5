import type { Config } from '../../config/load-config.ts'
import type { Settings } from '../settings/settings.ts'
import { bodyMistakes } from './bodies.ts'
import { claimMistakes } from './claims.ts'
import { effectMistakes } from './effects.ts'
import { exemptionMistakes } from './exemptions.ts'
import { fileMistakes } from './file.ts'
import type { Finding } from './finding.ts'
import { impliedMistakes } from './implied.ts'
import { reserveMistakes } from './reserves.ts'
import { timeoutMistakes } from './timeouts.ts'
import { unlimitedMistakes } from './unlimited.ts'
import { upstreamMistakes } from './upstream.ts'

type Mistakes = (config: Config, settings: Settings) => readonly Finding[]

/** What the Worker accepts, but surely is not meant. */
export const MISTAKES: readonly Mistakes[] = [fileMistakes, upstreamMistakes, timeoutMistakes, effectMistakes]

/** The same of how policies go together, which can be told only if all of them are right by themselves. */
export const MISTAKES_OF_POLICIES: readonly Mistakes[] = [
  exemptionMistakes,
  unlimitedMistakes,
  impliedMistakes,
  reserveMistakes,
  bodyMistakes,
  claimMistakes,
]
