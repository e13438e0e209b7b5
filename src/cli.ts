#!/usr/bin/env node
import { main } from './command/main.ts'

const END_WITHIN_MS = 1_000

process.exitCode = await main(process.argv.slice(2), process)
// A client that was about to connect again may keep the process for as long as the server is away.
setTimeout(() => process.exit(), END_WITHIN_MS).unref()
