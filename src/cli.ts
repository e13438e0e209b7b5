#!/usr/bin/env node
/** Starts the command `sluice`. */

import { main } from './command/main.ts'

const END_WITHIN_MS = 1_000

process.exitCode = await main(process.argv.slice(2), process)
// A client that is still trying to reconnect would keep the process alive.
setTimeout(() => process.exit(), END_WITHIN_MS).unref()
