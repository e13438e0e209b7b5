/**
 * Twin of `lua/fixed-window.lua`: windows aligned to the clock.
 */
import { countedWindows } from './counted-windows.ts'

export const fixedWindow = countedWindows((nowMs, windowMs) => nowMs - (nowMs % windowMs))
