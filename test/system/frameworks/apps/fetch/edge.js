import { limit } from 'sluice/fetch'
import { answer } from '../answer.js'
import { options } from '../options.js'

// As Vercel calls a function at its edge: with the request, and an object that has waitUntil().
const limited = limit(answer, options)
addEventListener('fetch', (event) => event.respondWith(limited(event.request, event)))
