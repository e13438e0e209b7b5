import type { Config } from '../../config/load-config.ts'
import type { Settings } from '../settings/settings.ts'
import type { Finding } from './finding.ts'
import { timeoutMistakes } from './timeouts.ts'

/** What the Worker accepts, but surely is not meant. */
export const MISTAKES: readonly ((config: Config, settings: Settings) => readonly Finding[])[] = [timeoutMistakes]
