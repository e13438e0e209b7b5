#!/usr/bin/env node
import { main } from './command/main.ts'

process.exitCode = await main(process.argv.slice(2), process)
