import { answer } from '../../../../answer.js'

export const GET = ({ request }) => answer(request)
