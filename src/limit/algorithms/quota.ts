/**
 * Twin of `lua/quota.lua`: budgets whose windows begin at their first use.
 */
import { countedWindows } from './counted-windows.ts'

export const quota = countedWindows((nowMs) => nowMs)
